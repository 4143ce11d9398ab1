package filetree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// deepen creates a number of directories, each in the previous one, with a file in each.
func deepen(t *testing.T, dir string, levels int) {
	t.Helper()
	at := must.Get(syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0))(t)
	for range levels {
		must.Do(t, syscall.Mkdirat(at, "d", 0o700))
		next := must.Get(syscall.Openat(at, "d", syscall.O_RDONLY|syscall.O_DIRECTORY, 0))(t)
		_ = syscall.Close(at)
		at = next
		file := must.Get(syscall.Openat(at, "f", syscall.O_CREAT|syscall.O_WRONLY, 0o600))(t)
		_ = syscall.Close(file)
	}
	_ = syscall.Close(at)
}

// fill creates a number of empty files.
func fill(t *testing.T, dir string, n int) {
	t.Helper()
	at := must.Get(syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0))(t)
	defer syscall.Close(at)
	for i := range n {
		file := must.Get(syscall.Openat(at, "f"+strconv.Itoa(i), syscall.O_CREAT|syscall.O_WRONLY, 0o600))(t)
		_ = syscall.Close(file)
	}
}

// tempDir returns a directory that Empty removes, because t.TempDir cannot remove a deep one. It is in memory, if the
// system has such a file system, because disks take long to create many directories.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "filetree-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() {
		if err := errors.Join(empty(context.Background(), dir), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func empty(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return filetree.Empty(ctx, root)
}

// names returns the names that a walk visits, sorted.
func names(t *testing.T, dir string) []string {
	t.Helper()
	var seen []string
	must.Do(t, filetree.Walk(t.Context(), dir, func(e filetree.Entry) error {
		seen = append(seen, fmt.Sprintf("%d %s", e.Depth, e.Name))
		return nil
	}))
	slices.Sort(seen)
	return seen
}

// A walk needs no memory for the levels that it has read, neither on its way down nor on its way back.
func TestWalkOfADeepTreeTakesBoundedMemory(t *testing.T) {
	dir := tempDir(t)
	deepen(t, dir, 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must.Do(t, filetree.Walk(t.Context(), dir, func(filetree.Entry) error { return nil }))
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 24 {
		t.Errorf("a walk of 10,000 levels took %d MiB, a buffer for each of them", took)
	}
}

func TestWalkVisitsEachEntryOnce(t *testing.T) {
	dir := tempDir(t)
	must.Do(t, errors.Join(
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700),
		os.WriteFile(filepath.Join(dir, "a", "f"), make([]byte, 10000), 0o600),
		os.WriteFile(filepath.Join(dir, "\xff\xfe"), nil, 0o600),
		os.Mkdir(filepath.Join(dir, "\xff"), 0o700),
		os.WriteFile(filepath.Join(dir, "\xff", "g\n"), nil, 0o600),
		os.Symlink("/", filepath.Join(dir, "link")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	))
	want := []string{"0 .", "1 a", "1 link", "1 pipe", "1 \xff", "1 \xff\xfe", "2 b", "2 f", "2 g\n"}
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
	must.Do(t, filetree.Walk(t.Context(), dir, func(e filetree.Entry) error {
		if e.Name == "f" && (e.Bytes < 10000 || e.IsDir || e.Links != 1 || e.Inode == 0) || e.Name == "a" && !e.IsDir {
			t.Errorf("entry %+v", e)
		}
		return nil
	}))
}

func TestWalkOfNoDirectory(t *testing.T) {
	dir := tempDir(t)
	if err := errors.Join(os.Symlink("/", filepath.Join(dir, "link")), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	visit := func(filetree.Entry) error { t.Error("visited"); return nil }
	if err := filetree.Walk(t.Context(), filepath.Join(dir, "none"), visit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	for _, name := range []string{"link", "file"} {
		if err := filetree.Walk(t.Context(), filepath.Join(dir, name), visit); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// openFiles returns how many descriptors the process has.
func openFiles(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// heap returns the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A tree of 10,000 levels with a file in each level is walked in linear time with few descriptors.
func TestWalkOfADeepTree(t *testing.T) {
	dir := tempDir(t)
	const levels = 10_000
	deepen(t, dir, levels)
	before, most, seen, deepest := openFiles(t), 0, 0, 0
	must.Do(t, filetree.Walk(t.Context(), dir, func(e filetree.Entry) error {
		seen, deepest = seen+1, max(deepest, e.Depth)
		if seen%1000 == 0 {
			most = max(most, openFiles(t))
		}
		return nil
	}))
	if want := 2*levels + 1; seen != want || deepest != levels+1 {
		t.Errorf("visited %d entries to depth %d, want %d and %d", seen, deepest, want, levels+1)
	}
	if most-before > 40 {
		t.Errorf("%d descriptors were open at a time", most-before)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before and %d after", before, after)
	}
}

// One directory has many directories, each deeper than the number of open levels: the walk returns to the right
// directory.
func TestWalkOfAWideAndDeepTree(t *testing.T) {
	dir := tempDir(t)
	const above, wide, deep = 40, 60, 50
	want := 1 + 2*above + wide*(1+2*deep)
	deepen(t, dir, above) // so that the wide directory is not the root, and is closed in the meantime
	at := filepath.Join(dir, strings.Repeat("d/", above))
	for i := range wide {
		below := filepath.Join(at, fmt.Sprintf("wide%d", i))
		must.Do(t, os.Mkdir(below, 0o700))
		deepen(t, below, deep)
	}
	if got := len(names(t, dir)); got != want {
		t.Errorf("visited %d entries, want %d", got, want)
	}
}

func TestWalkDoesNotEnterMounts(t *testing.T) {
	dir, source := tempDir(t), t.TempDir()
	at := filepath.Join(dir, "mount")
	must.Do(t, errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(source, "file"), nil, 0o600)))
	if err := syscall.Mount(source, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(at, 0) })
	if got, want := names(t, dir), []string{"0 ."}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
}

func TestWalkEndsWithItsContext(t *testing.T) {
	dir := tempDir(t)
	fill(t, dir, 100)
	ctx, cancel := context.WithCancelCause(t.Context())
	seen, cause := 0, errors.New("over")
	err := filetree.Walk(ctx, dir, func(filetree.Entry) error {
		if seen++; seen == 10 {
			cancel(cause)
		}
		return nil
	})
	if !errors.Is(err, cause) || seen != 10 {
		t.Errorf("%d entries, %v", seen, err)
	}
	stop := errors.New("stop")
	if err := filetree.Walk(t.Context(), dir, func(filetree.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want the visitor's error", err)
	}
}

// A process that moves directories about as fast as it can makes a walk incomplete at most.
func TestWalkWhileDirectoriesAreMoved(t *testing.T) {
	dir, outside := tempDir(t), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
	deepen(t, dir, 100)
	deep := dir
	for range 50 {
		deep = filepath.Join(deep, "d")
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Rename(deep, filepath.Join(dir, "moved"))
			_ = os.Symlink(outside, deep)
			_ = os.Remove(deep)
			_ = os.Rename(filepath.Join(dir, "moved"), deep)
		}
	})
	for range 60 {
		_ = filetree.Walk(t.Context(), dir, func(e filetree.Entry) error {
			if e.Name == "secret" {
				t.Error("the walk left its root")
			}
			return nil
		})
	}
	close(done)
	all.Wait()
}

func isEmpty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%d entries are left, %v", len(entries), err)
	}
}

func TestEmptyOfADeepTree(t *testing.T) {
	dir := tempDir(t)
	deepen(t, dir, 10_000)
	before := openFiles(t)
	must.Do(t, empty(t.Context(), dir))
	isEmpty(t, dir)
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before and %d after", before, after)
	}
}

// One directory has many files, and more non-empty directories than are queued: the memory does not grow with their
// number.
func TestEmptyOfAWideTree(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 5000
	}
	dir := tempDir(t)
	wide := filepath.Join(dir, "wide")
	must.Do(t, os.Mkdir(wide, 0o700))
	fill(t, wide, n)
	for i := range 3000 {
		below := filepath.Join(wide, strconv.Itoa(i))
		if err := errors.Join(os.Mkdir(below, 0o700), os.WriteFile(filepath.Join(below, "\xff"), nil, 0o600), os.Mkdir(filepath.Join(below, "\xfe"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	seen, before, most := 0, heap(), uint64(0)
	if err := filetree.Walk(t.Context(), dir, func(filetree.Entry) error {
		if seen++; seen%10_000 == 0 {
			most = max(most, heap())
		}
		return nil
	}); err != nil || seen != n+2+3*3000 {
		t.Errorf("visited %d, %v, want %d", seen, err, n+2+3*3000)
	}
	if most > before && most-before > 4<<20 {
		t.Errorf("a walk keeps %d bytes", most-before)
	}
	sampled := &sampling{Context: t.Context()}
	before = heap()
	must.Do(t, empty(sampled, dir))
	isEmpty(t, dir)
	if sampled.most > before && sampled.most-before > 8<<20 {
		t.Errorf("a removal keeps %d bytes", sampled.most-before)
	}
	if sampled.calls < n/2 {
		t.Errorf("the removal asked %d times whether it should end, want it to ask for each entry", sampled.calls)
	}
}

// A sampling is a context that measures the heap at each 10,000th question whether it has ended.
type sampling struct {
	context.Context
	calls int
	most  uint64
}

func (s *sampling) Err() error {
	if s.calls++; s.calls%10_000 == 0 {
		s.most = max(s.most, heap())
	}
	return s.Context.Err()
}

// Entries that an interrupted call has left, or that were created under the name of its directory, are removed.
func TestEmptyAfterOneThatWasCutShort(t *testing.T) {
	outside := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600))
	for name, plant := range map[string]func(dir string) error{
		"a link":  func(dir string) error { return os.Symlink(outside, filepath.Join(dir, ".removed")) },
		"a file":  func(dir string) error { return os.WriteFile(filepath.Join(dir, ".removed"), nil, 0o600) },
		"its own": func(dir string) error { return os.MkdirAll(filepath.Join(dir, ".removed", "0", "x", "y"), 0o700) },
	} {
		dir := t.TempDir()
		must.Do(t, errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b", "c"), 0o700), plant(dir)))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := empty(ctx, dir); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want it canceled", name, err)
		}
		if err := empty(t.Context(), dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		isEmpty(t, dir)
	}
	must.Get(os.Stat(filepath.Join(outside, "kept")))(t)
}

// A mount, of another or of the same file system, is neither emptied nor moved.
func TestEmptyStopsAtAMount(t *testing.T) {
	dir, source := tempDir(t), t.TempDir()
	at := filepath.Join(dir, "a", "mount")
	must.Do(t, errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(source, "kept"), nil, 0o600)))
	if err := syscall.Mount(source, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	if err := empty(t.Context(), dir); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("%v, want %v", err, syscall.EBUSY)
	}
	must.Get(os.Stat(filepath.Join(source, "kept")))(t)
	_ = syscall.Unmount(at, 0)
	moved, _ := filepath.Glob(filepath.Join(dir, ".removed", "*", "mount"))
	for _, at := range moved { // with its parent
		_ = syscall.Unmount(at, 0)
	}
}

// Nothing is removed through a mount below the trash directory.
func TestEmptyStopsAtAMountInTrash(t *testing.T) {
	dir, source := tempDir(t), t.TempDir()
	at := filepath.Join(dir, ".removed", "0")
	must.Do(t, errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(filepath.Join(source, "kept"), nil, 0o600)))
	if err := syscall.Mount(source, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	if err := empty(t.Context(), dir); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("%v, want %v", err, syscall.EBUSY)
	}
	must.Get(os.Stat(filepath.Join(source, "kept")))(t)
	_ = syscall.Unmount(at, 0)
}

// Names that change during a walk are reported, however soon after it began; files that are written are not.
func TestWalkReportsChangedDirectories(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(dir string) error
		want   error
	}{
		"nothing":           {func(string) error { return nil }, nil},
		"a file is written": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a", "f"), []byte("more"), 0o600) }, nil},
		"a file is renamed": {func(dir string) error { return os.Rename(filepath.Join(dir, "a", "f"), filepath.Join(dir, "b", "f")) }, filetree.ErrChanged},
	} {
		dir := tempDir(t)
		for _, d := range []string{"a", "b"} {
			must.Do(t, os.Mkdir(filepath.Join(dir, d), 0o700))
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, "a", "f"), nil, 0o600))
		settle(t, dir)
		changed := false
		err := filetree.WalkUnchanged(t.Context(), dir, func(filetree.Entry) error {
			if changed {
				return nil
			}
			changed = true
			return tc.change(dir)
		})
		if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// settle waits until a walk no longer attributes the creation of the directory to the time of the walk.
func settle(t *testing.T, dir string) {
	t.Helper()
	for {
		err := filetree.WalkUnchanged(t.Context(), dir, func(filetree.Entry) error { return nil })
		if !errors.Is(err, filetree.ErrChanged) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
