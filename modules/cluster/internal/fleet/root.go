package fleet

import (
	"errors"
	"os"
	"path/filepath"
)

// volumes is the directory of a Root that containers write to as well.
const volumes = "pods"

// freeze copies what an agent remembers below its Root, and returns what puts it back: a process that is killed
// writes nothing more, while the goroutines of an agent may. Volumes are the containers', which live on.
func freeze(root string) (thaw func() error, err error) {
	kept := root + ".frozen"
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(kept), os.Mkdir(kept, 0o700)); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == volumes {
			continue
		}
		if err := copyTree(filepath.Join(root, e.Name()), filepath.Join(kept, e.Name()), e.IsDir()); err != nil {
			return nil, err
		}
	}
	return func() error { return errors.Join(replace(root, kept), os.RemoveAll(kept)) }, nil
}

func copyTree(from, to string, isDir bool) error {
	if isDir {
		return os.CopyFS(to, os.DirFS(from))
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// replace puts what was kept in place of what there is.
func replace(root, kept string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != volumes {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name())))
		}
	}
	old, readErr := os.ReadDir(kept)
	err = errors.Join(err, readErr)
	for _, e := range old {
		err = errors.Join(err, os.Rename(filepath.Join(kept, e.Name()), filepath.Join(root, e.Name())))
	}
	return err
}
