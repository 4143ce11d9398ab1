package hostfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	must.Do(t, os.WriteFile(hostfs.Temporary(path), []byte("left by a killed agent"), 0o600))
	for _, text := range []string{"first", "2"} {
		must.Do(t, hostfs.Replace(path, []byte(text), true))
		if got, err := os.ReadFile(path); string(got) != text || err != nil {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	wantNoTemporary(t, path)
	must.Do(t, hostfs.SyncDir(filepath.Dir(path)))
}

func TestReplaceThatFailsLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	must.Do(t, os.MkdirAll(filepath.Join(path, "in-the-way"), 0o700))
	if err := hostfs.Replace(path, []byte("text"), false); err == nil {
		t.Error("a directory is replaced by a file")
	}
	wantNoTemporary(t, path)
	if err := hostfs.Replace(filepath.Join(path, "no", "file"), nil, false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that the directory does not exist", err)
	}
}

func wantNoTemporary(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(hostfs.Temporary(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want no temporary file", err)
	}
}
