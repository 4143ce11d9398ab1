// Package csitest is the node service of a CSI driver in memory, for tests. It serves real gRPC, also in virtual time,
// and injects faults, delays and lost answers. A [Driver] checks that its caller keeps CSI's rules: no volume is
// published before it is staged, none is unstaged while it is published, and no path changes.
package csitest
