package poddir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The removal does not delete files through a mount that appears after the check of the mounts.
func TestEmptierCannotMoveAMountPoint(t *testing.T) {
	top, source := t.TempDir(), t.TempDir()
	volume := filepath.Join(top, "volumes", "data")
	must.Do(t, os.MkdirAll(volume, 0o755))
	if err := syscall.Mount(source, volume, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		moved, _ := filepath.Glob(filepath.Join(top, ".removed", "*", "data"))
		for _, at := range moved { // with its parent
			_ = syscall.Unmount(at, 0)
		}
	})
	must.Do(t, os.WriteFile(filepath.Join(volume, "precious"), nil, 0o600))
	if err := empty(t.Context(), top); err == nil {
		t.Error("no error")
	}
	must.Get(os.Stat(filepath.Join(source, "precious")))(t)
}
