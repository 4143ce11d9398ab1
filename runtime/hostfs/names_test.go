package hostfs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A file that is renamed while its directory is listed is in the list.
func TestNamesWhileAFileIsRenamed(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	must.Do(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	one, two := filepath.Join(dir, "d", "one"), filepath.Join(dir, "d", "two")
	must.Do(t, os.WriteFile(one, nil, 0o600))
	done := make(chan struct{})
	var renaming sync.WaitGroup
	renaming.Go(func() {
		for from, to := one, two; ; from, to = to, from {
			select {
			case <-done:
				return
			default:
			}
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3000 {
		if names, err := Names(root, "d"); err != nil || len(names) == 0 {
			t.Errorf("names %v, %v, want the file", names, err)
			break
		}
	}
	close(done)
	renaming.Wait()
}

// Only directories are opened, and no link leads out of the root.
func TestNamesOfNoDirectory(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	must.Do(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must.Do(t, os.Symlink(os.TempDir(), filepath.Join(dir, "link")))
	for _, name := range []string{"file", "link", "nothing"} {
		if names, err := Names(root, name); err == nil {
			t.Errorf("%s: %v, want an error", name, names)
		}
	}
}
