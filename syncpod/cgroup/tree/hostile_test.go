package tree

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// A container that may write to its cgroup makes trees of any depth, with names of any bytes:
// they are removed, and memory grows with the depth alone.
func TestHostileTreesAreRemoved(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("names of any bytes and paths of any length are those of Linux")
	}
	k := newKernel(t, cgroup.V2)
	tree := k.agent()
	ensure(t, tree, burstable("u", "1", "64Mi"))
	top := filepath.Join(k.dir, "kubepods", "burstable", "podu")
	dir, err := os.OpenRoot(top)
	k.must(err)
	for i := range 200 {
		name := strings.Repeat("d", 200)
		if i%2 == 0 {
			name = "\xff\xfe"
		}
		k.must(dir.Mkdir(name, 0o700))
		next, err := dir.OpenRoot(name)
		k.must(errors.Join(err, dir.Close()))
		dir = next
	}
	k.must(dir.Close())
	k.must(tree.RemovePod(t.Context(), "u"))
	if _, err := os.Lstat(top); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want it removed", top, err)
	}
}
