package node

import "syscall"

// StorageBytes returns the size of the file system that contains a directory, 0 if the size is unknown.
func StorageBytes(dir string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Bsize <= 0 || s.Blocks > 1<<62/uint64(s.Bsize) {
		return 0
	}
	return int64(s.Blocks) * s.Bsize
}
