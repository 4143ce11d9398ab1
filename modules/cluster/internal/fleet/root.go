package fleet

import (
	"errors"
	"os"
	"path/filepath"
)

// volumes is the directory below Root to which containers write.
const volumes = "pods"

// freeze copies the agent's state below Root, and returns a function that restores it. The goroutines of a killed agent
// may still write, unlike a killed process. Volumes are not copied, because the containers keep running.
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

// replace replaces the state by the copy.
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
