package image

import (
	"fmt"
	"syscall"
)

// statfs returns the usage for the file system that contains the path.
func statfs(path string) (Disk, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return Disk{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	return Disk{Capacity: s.Blocks * uint64(s.Bsize), Available: s.Bavail * uint64(s.Bsize)}, nil
}
