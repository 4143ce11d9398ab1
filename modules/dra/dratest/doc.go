// Package dratest is a driver of dynamic resource allocation in memory, for tests.
package dratest
