//go:build unix

package rotate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A pipe is not opened, which would wait for a writer.
func TestPipe(t *testing.T) {
	root := t.TempDir()
	w := newWriter(t, root)
	w.print(50)
	must.Do(t, syscall.Mkfifo(filepath.Join(w.dir, "0.log.20261122-120000"), 0o600))
	if err := newRotator(t, root, w, Policy{MaxSize: 1000}).Rotate(t.Context()); err == nil || !strings.Contains(err.Error(), "0.log.20261122-120000 is not a regular file") {
		t.Errorf("error is %v, want an error and %q in it", err, "0.log.20261122-120000 is not a regular file")
	}
}

// A pipe that takes the place of a compressed file before it is continued is not opened, with or without
// a reader.
func TestCompressionIsNotContinuedInAPipe(t *testing.T) {
	for name, reads := range map[string]bool{"a pipe": false, "a pipe with a reader": true} {
		replaced(t, name, func(dir *os.Root) error {
			path := filepath.Join(dir.Name(), "0.log.1.gz.tmp")
			if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil || !reads {
				return err
			}
			pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			t.Cleanup(func() { pipe.Close() })
			return err
		})
	}
}

// A directory of another user is not touched: he could put anything into it.
func TestDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	for _, path := range []string{"default_web_uid", logDir} {
		root := t.TempDir()
		w := newWriter(t, root)
		w.print(50)
		must.Do(t, os.Chown(filepath.Join(root, path), 1000, 1000))
		err := newRotator(t, root, w, Policy{MaxSize: 1000}).Rotate(t.Context())
		if err == nil || !strings.Contains(err.Error(), filepath.Base(path)+": it belongs to user 1000") {
			t.Errorf("error is %v, want an error and %v in it", err, filepath.Base(path)+": it belongs to user 1000")
		}
		if got := w.names(); !slices.Equal(got, []string{"0.log"}) {
			t.Errorf("there are %v", got)
		}
	}
}
