package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/podsync/podsync/internal/base/regular"
)

// No process writes to the FIFO: opening it would wait for ever. A device that is opened acts.
func TestNothingElseIsOpened(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"pipe"}
	if err := syscall.Mknod(filepath.Join(dir, "device"), syscall.S_IFCHR|0o600, 5<<8|1); err == nil {
		names = append(names, "device")
	}
	for _, name := range names {
		if _, err := regular.Read(root, name, 100); !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process that swaps the file for a FIFO and a link as fast as it can is no reason to wait or to
// read elsewhere.
func TestReadWhileTheFileIsSwapped(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	name := filepath.Join(dir, "name")
	if err := errors.Join(os.WriteFile(outside, []byte("secret"), 0o600), os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o600),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			for _, kind := range []string{"file", "pipe", "link"} {
				select {
				case <-done:
					return
				default:
				}
				_ = os.Remove(name)
				_ = os.Link(filepath.Join(dir, kind), name)
			}
		}
	})
	for range 3000 {
		if text, err := regular.Read(root, "name", 100); err == nil && string(text) != "12345" {
			t.Errorf("read %q", text)
		}
	}
	close(done)
	flipping.Wait()
}
