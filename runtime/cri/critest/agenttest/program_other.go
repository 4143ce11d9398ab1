//go:build !linux

package agenttest

// unmountBelow does nothing: only agents on Linux mount.
func unmountBelow(string) {}
