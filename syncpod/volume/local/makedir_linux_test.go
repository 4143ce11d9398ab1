package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A container replaces the directory that the agent has just created, before the agent opens it or between
// the check and the opening. The replacement keeps its mode.
func TestDirectoryIsSwappedAfterItWasMade(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // so that modes are to be changed
	for name, swap := range map[string]func(at string) error{
		"a link to an empty directory": func(at string) error { return os.Symlink("private", at) },
		"a link to a full directory":   func(at string) error { return os.Symlink("full", at) },
		"another directory":            func(at string) error { return os.Rename(filepath.Join(filepath.Dir(at), "full"), at) },
		"a pipe":                       func(at string) error { return syscall.Mkfifo(at, 0o600) },
	} {
		for _, late := range []bool{false, true} {
			volume := t.TempDir()
			at := filepath.Join(volume, "name")
			must.Do(t, errors.Join(os.Mkdir(filepath.Join(volume, "private"), 0o700), os.MkdirAll(filepath.Join(volume, "full", "below"), 0o700), os.Mkdir(at, 0o700)))
			parent := must.Get(os.OpenRoot(volume))(t)
			defer parent.Close()
			found, err := parent.Lstat("name")
			must.Do(t, errors.Join(err, os.Remove(at), swap(at)))
			var dir *os.Root
			if late {
				dir, _, err = open(parent, "name", found)
			} else {
				dir, err = takeOver(parent, "name", 0o755)
			}
			if err == nil {
				t.Errorf("%s, late %v: no error", name, late)
				_ = dir.Close()
			}
			must.Do(t, filepath.WalkDir(volume, func(path string, e fs.DirEntry, err error) error {
				if err != nil || path == volume || !e.IsDir() {
					return err
				}
				if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("%s, late %v: %s has %v, %v", name, late, path, info.Mode(), err)
				}
				return nil
			}))
		}
	}
}
