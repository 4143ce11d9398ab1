package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// A container may have the directory of the node's logs by hostPath: a FIFO there delays no request, and a link is followed
// only to a file below the directory.
func TestNodeLogsOfAHostileDirectory(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, errors.Join(syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.WriteFile(filepath.Join(dir, "messages"), []byte("boot"), 0o600),
		os.Symlink("messages", filepath.Join(dir, "latest")), os.Symlink("fifo", filepath.Join(dir, "to-fifo")), os.Symlink("/etc/passwd", filepath.Join(dir, "out"))))
	n := newNode(t, func(c *server.Config) { c.NodeLogs = dir })
	n.want("GET", "/logs/latest", 200, "boot")
	for _, name := range []string{"fifo", "to-fifo", "out", "fifo/x"} {
		if code, text := n.ask("GET", "/logs/"+name); code < 400 || strings.Contains(text, "root:") {
			t.Errorf("%s: %d %.100q", name, code, text)
		}
	}
}
