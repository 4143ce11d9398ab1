//go:build !windows

package durable

import (
	"errors"
	"os"
)

// SyncDir returns once the names in a directory have reached the disk.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
