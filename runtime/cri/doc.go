// Package cri is the way to a container runtime that speaks CRI v1: a connection
// that bounds its calls and survives the runtime's restarts, the classes of
// errors, and the conversion of what runtimes report to package runtime's types.
package cri
