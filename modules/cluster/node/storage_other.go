//go:build !linux

package node

// StorageBytes returns the size of the file system that contains a directory, 0 if the size is unknown.
func StorageBytes(string) int64 { return 0 }
