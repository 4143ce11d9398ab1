package podfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/internal/podfile"
)

// A FIFO or a link in the place of a record is neither opened nor followed, and the error names the pod.
func TestNothingButARecordIsRead(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.WriteFile(outside, []byte("{}"), 0o600), syscall.Mkfifo(filepath.Join(dir, "a.json"), 0o600), os.Symlink(outside, filepath.Join(dir, "b.json"))); err != nil {
		t.Fatal(err)
	}
	if text, err := podfile.Dir(dir).Read("a"); err == nil || !strings.Contains(err.Error(), "pod a") {
		t.Errorf("a FIFO: %q, %v", text, err)
	}
	if text, err := podfile.Dir(dir).Read("b"); err == nil || !strings.Contains(err.Error(), "pod b") {
		t.Errorf("a link: %q, %v", text, err)
	}
}
