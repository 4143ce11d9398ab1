package source

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A FIFO or a link in the place of the checkpoint is neither opened nor followed.
func TestNothingButACheckpointIsRead(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Symlink("/etc/hostname", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link} {
		if text, err := readCheckpoint(path, maxMemory); err == nil {
			t.Errorf("%s is read: %q", path, text)
		}
	}
}
