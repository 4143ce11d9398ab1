package stats

import (
	"fmt"
	"syscall"
	"time"
)

// StatFS returns the usage of the file system that contains the path, nil where that is not implemented.
func StatFS(path string) (*FS, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", path, err)
	}
	var at syscall.Stat_t
	if err := syscall.Stat(path, &at); err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	block := uint64(s.Bsize)
	return &FS{
		Time:           time.Now(),
		Device:         uint64(at.Dev),
		CapacityBytes:  new(s.Blocks * block),
		AvailableBytes: new(s.Bavail * block),
		UsedBytes:      new((s.Blocks - min(s.Blocks, s.Bfree)) * block),
		Inodes:         new(s.Files),
		InodesFree:     new(s.Ffree),
		InodesUsed:     new(s.Files - min(s.Files, s.Ffree)),
	}, nil
}
