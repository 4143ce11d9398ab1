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

// Write makes a file that only the agent's user may read. It removes a file at the path without opening it: a link
// could lead to a file of others, and a FIFO would block. With sync, the contents are on the disk when Write returns.
func Write(path string, text []byte, sync bool) error {
	file, err := create(path)
	if errors.Is(err, fs.ErrExist) {
		if os.Remove(path) != nil { // a directory with contents
			err = os.Rename(path, path+aside)
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			file, err = create(path)
		}
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && sync {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// aside is the suffix of a moved object that was in a file's place.
const aside = ".damaged"

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}
