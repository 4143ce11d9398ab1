//go:build !windows

package loop

import (
	"errors"
	"os"
)

// syncDir makes the names in a directory last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
