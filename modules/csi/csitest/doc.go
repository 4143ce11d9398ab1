// Package csitest is the node service of a CSI driver in memory, for tests: real gRPC, faults, delays and lost answers,
// also in virtual time. A [Driver] checks that its caller keeps the rules of CSI: nothing is published that is not
// staged, nothing unstaged that is published, and no path changes.
package csitest
