package tree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
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

// A container has as many processes as possible: one read of the list covers many of them, and no read
// exceeds a limit.
func TestManyProcessesAreKilledInLinearTime(t *testing.T) {
	root := must.Get(os.OpenRoot(t.TempDir()))(t)
	defer root.Close()
	const many, first = 20_000, 1 << 23 // numbers that no process can have
	list := func(n int) {
		t.Helper()
		var text bytes.Buffer
		for i := range n {
			fmt.Fprintln(&text, first+i)
		}
		must.Do(t, root.WriteFile(procs, text.Bytes(), 0o600))
	}
	list(many)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	if n, err := killIn(t.Context(), root, "."); err != nil || n != many {
		t.Errorf("%d processes, %v, want %d", n, err, many)
	}
	goruntime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 512 {
		t.Errorf("%d processes took %d MiB, a list for each of them", many, took)
	}
	list(10 * many)
	if found, err := processes(root, "."); err != nil || len(found) != maxProcesses/8 || found[len(found)-1] != first+len(found)-1 {
		t.Errorf("of a list that is too long %d processes are read, %v, want %d", len(found), err, maxProcesses/8)
	}
}
