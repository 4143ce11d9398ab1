package hostfs_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs"
)

// The name under which a file is written first is known. What another process has put there is neither opened nor
// followed.
func TestReplaceOpensNothingThatIsThere(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for name, put := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(victim, path) },
		"hard link": func(path string) error { return os.Link(victim, path) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"file":      func(path string) error { return os.WriteFile(path, []byte("old and long"), 0o666) },
		"empty":     func(path string) error { return os.Mkdir(path, 0o700) },
		"directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "a"), 0o700) },
	} {
		must.Do(t, os.WriteFile(victim, []byte("precious"), 0o600))
		path := filepath.Join(t.TempDir(), "f")
		must.Do(t, put(hostfs.Temporary(path)))
		if err := hostfs.Replace(path, []byte("new"), false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
			t.Errorf("%s: the other file has %q, %v", name, text, err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "new" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
