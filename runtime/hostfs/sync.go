//go:build !windows

package hostfs

import (
	"errors"
	"os"
)

// SyncDir returns when the names in a directory are on the disk.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
