package filetree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// turn is a context that ends after its error was read a number of times.
type turn struct {
	context.Context
	left int
}

func (t *turn) Err() error {
	if t.left--; t.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// filled creates directories that are not empty.
func filled(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		must.Do(t, os.MkdirAll(filepath.Join(dir, strconv.Itoa(i), "x"), 0o700))
	}
}

func count(t *testing.T, dir string) int {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	return len(entries)
}

func rootOf(t *testing.T, dir string) *os.Root {
	t.Helper()
	root := must.Get(os.OpenRoot(dir))(t)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// A call removes the directories that earlier calls have moved before it moves others: the trash directory does not
// grow with each call.
func TestEmptyBeginsWithMovedFiles(t *testing.T) {
	dir := t.TempDir()
	const n = 100
	filled(t, filepath.Join(dir, trash), n)
	filled(t, dir, n)
	if err := Empty(&turn{t.Context(), n}, rootOf(t, dir)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, want that the turn is over", err)
	}
	if moved, left := n+1-count(t, dir), count(t, filepath.Join(dir, trash)); moved > 0 || left > n*3/4 {
		t.Errorf("%d directories were moved while %d of the %d that were there before are left", moved, left, n)
	}
}

// Empty moves directories to new names. It does not search for a free name among those that earlier calls have left,
// because there may be millions.
func TestMoveTriesNoNameOfAnEarlierCall(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, 50)
	root := rootOf(t, dir)
	for i := range 50 {
		e := newEmptier(t.Context(), root, ".")
		if err := errors.Join(e.makeTrash(), e.move(strconv.Itoa(i))); err != nil || e.made != 1 {
			t.Fatalf("directory %d was moved after %d names were tried, %v", i, e.made, err)
		}
	}
}

// A name that is taken is not used, and the search for another one ends with the context.
func TestMoveToATakenName(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, 1)
	e := newEmptier(t.Context(), rootOf(t, dir), ".")
	const taken = 100
	for i := range taken {
		must.Do(t, os.MkdirAll(filepath.Join(dir, trash, e.prefix+strconv.Itoa(i), "x"), 0o700))
	}
	e.ctx = &turn{t.Context(), taken / 2}
	if err := e.move("0"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v after %d names, want that the turn is over", err, e.made)
	}
	e.ctx = t.Context()
	if err := e.move("0"); err != nil || e.made != taken+1 || count(t, filepath.Join(dir, trash)) != taken+1 {
		t.Errorf("%v after %d names", err, e.made)
	}
}
