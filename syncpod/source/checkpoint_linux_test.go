package source

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A FIFO or a link in the place of the checkpoint is neither opened nor followed.
func TestNothingButACheckpointIsRead(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	must.Do(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("/etc/hostname", link)))
	for _, path := range []string{fifo, link} {
		if text, err := readCheckpoint(path, maxMemory); err == nil {
			t.Errorf("%s is read: %q", path, text)
		}
	}
}
