package filetree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestWalkAndEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.WriteFile(filepath.Join(dir, "a", "f"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var dirs, files int
	count := func(e filetree.Entry) error {
		if e.IsDir {
			dirs++
		} else {
			files++
		}
		return nil
	}
	if err := filetree.Walk(t.Context(), dir, count); err != nil || dirs != 3 || files != 1 {
		t.Errorf("%d directories and %d files, %v, want 3 and 1", dirs, files, err)
	}
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	must.Do(t, filetree.Empty(t.Context(), root))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v are left, %v", entries, err)
	}
	if err := filetree.Walk(t.Context(), filepath.Join(dir, "a"), count); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want it not to exist", err)
	}
}
