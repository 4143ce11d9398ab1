//go:build !linux

package node

// StorageBytes returns the size of the file system that a directory is on, 0 if that is not known.
func StorageBytes(string) int64 { return 0 }
