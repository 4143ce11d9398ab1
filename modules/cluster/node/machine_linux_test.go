package node

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestFactsInOtherFiles: a FIFO or a huge file in place of a file about the machine counts as missing.
func TestFactsInOtherFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, huge, good := filepath.Join(dir, "fifo"), filepath.Join(dir, "huge"), filepath.Join(dir, "good")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	for path, text := range map[string]string{huge: "x\n", good: "PRETTY_NAME=\"A B\"\n"} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	must.Do(t, os.Truncate(huge, 1<<40))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range []string{fifo, huge, filepath.Join(dir, "missing")} {
			if line, name := firstLine(path), osName(path); line != "" || name != "" {
				t.Errorf("%s is read: %q, %q", path, line, name)
			}
		}
		if name := osName(good); name != "A B" {
			t.Errorf("the name is %q", name)
		}
		if meminfo("MemTotal") == 0 || firstLine("/proc/sys/kernel/osrelease") == "" {
			t.Error("files of the kernel are not read")
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("a FIFO is waited for")
	}
}
