package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// directory is a volume's desired directory.
type directory struct {
	path string
	access
}

// make creates the directory if it does not exist, whatever the process's umask. It gets its name
// last, so an existing one is complete.
func (d directory) make() error {
	if _, err := os.Lstat(d.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent, err := os.OpenRoot(filepath.Dir(d.path))
	if err != nil {
		return err
	}
	defer parent.Close()
	name := filepath.Base(d.path)
	next := "." + name // no volume has this name
	if err := parent.Mkdir(next, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := give(parent, next, d.access); err != nil {
		return err
	}
	return parent.Rename(next, name)
}

// makeInMemory mounts a file system in memory on the directory, unless one is mounted.
func (d directory) makeInMemory(in memory) error {
	if err := d.make(); err != nil {
		return err
	}
	there, err := mounts.At(d.path)
	if err != nil || there {
		return err
	}
	if err := mountMemory(d, in); err != nil {
		return fmt.Errorf("mount a file system in memory, which Config.Unprivileged does without: %w", err)
	}
	return nil
}
