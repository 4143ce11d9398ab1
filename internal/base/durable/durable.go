// Package durable replaces files: whenever the agent is killed, the old content or the new
// one is there. Modules of this repository use it, too.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace replaces a file, or makes it. With sync the new content, though maybe not the name,
// has reached the disk when Replace returns; see [SyncDir]. If it fails, the old file stays. The
// directory must exist. For one path Replace must be called one at a time.
func Replace(path string, text []byte, sync bool) error {
	temporary := Temporary(path)
	err := Write(temporary, text, sync)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err == nil {
		return nil
	}
	if left := os.Remove(temporary); !errors.Is(left, fs.ErrNotExist) {
		err = errors.Join(err, left)
	}
	return err
}

// Temporary returns the path of the file that Replace writes first. The next Replace
// overwrites the file that a killed agent has left there.
func Temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
}

// Write writes a file that the agent's user alone may read. With sync the content has reached
// the disk when Write returns.
func Write(path string, text []byte, sync bool) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && sync {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
