//go:build unix

package source

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A file of the folder is swapped for a FIFO as fast as possible. No process writes to the FIFO, so that a read of
// it would not end.
func TestManifestIsSwappedForAFIFO(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.yaml")
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)))
	done, read := make(chan struct{}), make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			for _, kind := range []string{"file", "pipe"} {
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
	go func() {
		defer close(read)
		for range 20000 {
			if text, err := readManifest(name); err == nil && string(text) != "text" {
				t.Errorf("read %q", text)
			}
		}
	}()
	select {
	case <-read:
	case <-time.After(2 * time.Minute):
		t.Error("a read waits for a writer")
	}
	close(done)
	flipping.Wait()
}
