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

func TestRead(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	outside := filepath.Join(t.TempDir(), "outside")
	must.Do(t, errors.Join(
		os.WriteFile(outside, []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o600),
		os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o600),
		os.Truncate(filepath.Join(dir, "sparse"), 1<<40),
		os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		os.Symlink("file", filepath.Join(dir, "link")),
		os.Symlink(outside, filepath.Join(dir, "out")),
		os.Symlink(filepath.Dir(outside), filepath.Join(dir, "outdir")),
	))
	for limit, want := range map[int64]error{5: nil, 6: nil, 4: hostfs.ErrTooLarge, 0: hostfs.ErrTooLarge} {
		text, err := hostfs.Read(root, "file", limit)
		if !errors.Is(err, want) || want == nil && string(text) != "12345" {
			t.Errorf("limit %d: %q, %v, want %v", limit, text, err, want)
		}
	}
	for name, want := range map[string]error{
		"sparse": hostfs.ErrTooLarge, "dir": hostfs.ErrNotRegular, "link": hostfs.ErrNotRegular, "out": hostfs.ErrNotRegular,
		"none": fs.ErrNotExist,
	} {
		if text, err := hostfs.Read(root, name, 100); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", name, text, err, want)
		}
	}
	if text, err := hostfs.Read(root, "outdir/outside", 100); err == nil {
		t.Errorf("a path that leads out of the root: %q", text)
	}
}
