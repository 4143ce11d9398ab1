package poddir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The removal does not delete files through a mount that appears after the check of the mounts.
func TestEmptierCannotMoveAMountPoint(t *testing.T) {
	top, source := t.TempDir(), t.TempDir()
	volume := filepath.Join(top, "volumes", "data")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(source, volume, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() {
		moved, _ := filepath.Glob(filepath.Join(top, ".removed", "*", "data"))
		for _, at := range moved { // with its parent
			_ = syscall.Unmount(at, 0)
		}
	})
	if err := os.WriteFile(filepath.Join(volume, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := empty(t.Context(), top); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(source, "precious")); err != nil {
		t.Error(err)
	}
}
