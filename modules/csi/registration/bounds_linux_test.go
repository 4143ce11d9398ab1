package registration

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Files, pipes, links and directories beside it do not hide the socket of a driver, and are not called.
func TestOtherFilesHideNoSocket(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 * maxSockets {
		name := filepath.Join(dir, strings.Repeat("x", 1+i%200)+strconv.Itoa(i))
		var err error
		switch i % 4 {
		case 0:
			err = os.WriteFile(name, nil, 0o600)
		case 1:
			err = syscall.Mkfifo(name, 0o600)
		case 2:
			err = os.Symlink("d.sock", name)
		case 3:
			err = os.Mkdir(name, 0o700)
		}
		must.Do(t, err)
	}
	listener := must.Get(net.Listen("unix", filepath.Join(dir, "d.sock")))(t)
	defer listener.Close()
	if found := socketsIn(dir); len(found) != 1 || found[filepath.Join(dir, "d.sock")] == nil {
		t.Errorf("found %v", found)
	}
}
