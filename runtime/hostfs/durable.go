package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace creates or replaces a file. With sync, the contents are on the disk when Replace returns,
// but possibly not the name; see [SyncDir]. On failure the old file is kept. The directory must
// exist. Calls for the same path must not overlap.
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

// Temporary returns the path for the file that Replace writes first. The next
// Replace overwrites the file that a killed agent has left there.
func Temporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
}

// Write writes a file that only the agent's user may read. With sync, the contents are on the disk when Write
// returns.
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
