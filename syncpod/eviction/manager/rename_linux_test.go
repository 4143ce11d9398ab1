package manager

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A container observes the walk, and moves a file from the next directory to one that has been
// walked: the file still counts, once. A file that is renamed within its directory does not count twice.
func TestFilesRenamedBehindTheWalkCount(t *testing.T) {
	for name, behind := range map[string]bool{"moved behind the walk": true, "renamed after it was counted": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{"a", "b"} {
				must.Do(t, errors.Join(os.Mkdir(filepath.Join(dir, d), 0o700), os.WriteFile(filepath.Join(dir, d, "here"), nil, 0o600)))
			}
			// from has the file, to is where it is moved.
			from, to, moved := "", "", false
			walk := func(ctx context.Context, root string, visit func(filetree.Entry) error) error {
				return filetree.WalkUnchanged(ctx, root, func(e filetree.Entry) error {
					switch {
					case e.Name == "big" && !behind && !moved:
						moved = true
						if err := os.Rename(filepath.Join(dir, from, "big"), filepath.Join(dir, from, "bigger")); err != nil {
							t.Error(err)
						}
					case e.IsDir && e.Depth == 1 && from == "": // the first directory: its file has moved to the other one
						from, to = "b", "a"
						if e.Name == "b" {
							from, to = "a", "b"
						}
						write(t, filepath.Join(dir, from, "big"), 1<<20)
					case e.IsDir && e.Depth == 1 && behind && !moved:
						moved = true
						if err := os.Rename(filepath.Join(dir, from, "big"), filepath.Join(dir, to, "big")); err != nil {
							t.Error(err)
						}
					}
					return visit(e)
				})
			}
			m := measurer{walk: walk}
			of := m.used(t.Context(), dir)
			if of.bytes < 1<<20 || of.bytes > 3<<19 || of.unread > 0 || !moved {
				t.Errorf("%+v, want 1 MiB, counted to the end", of)
			}
		})
	}
}
