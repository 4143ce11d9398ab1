package registration

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A Watcher calls a limited number of sockets in its directory, and refuses a path that no socket can have.
func TestSocketsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range maxSockets + 10 {
		listener := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, strings.Repeat("a", i%20+1)+string(rune('a'+i/20))), Net: "unix"}))(t)
		listener.SetUnlinkOnClose(false)
		listener.Close()
	}
	if found := socketsIn(dir); len(found) != maxSockets {
		t.Errorf("%d sockets are found, want %d", len(found), maxSockets)
	}
	w := &Watcher{}
	if err := w.registerSocket(t.Context(), "/"+strings.Repeat("x", maxSocketPath)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
