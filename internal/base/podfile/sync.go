//go:build !windows

package podfile

import (
	"errors"
	"os"
)

// Sync returns once the names in the directory have reached the disk.
func (d Dir) Sync() error {
	dir, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
