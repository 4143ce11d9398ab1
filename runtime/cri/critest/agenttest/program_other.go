//go:build !linux

package agenttest

// unmountBelow does nothing: agents that mount are there on Linux alone.
func unmountBelow(string) {}
