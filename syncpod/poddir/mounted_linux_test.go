package poddir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/poddir"
)

func mount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
}

// A mounted volume is not deleted, whether it is on another file system or
// on the same one, where device numbers do not show the mount.
func TestRemovalCrossesNoMount(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		flags      uintptr
	}{
		{"tmpfs", "tmpfs", 0},
		{"bind", "", syscall.MS_BIND},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			d := newDirs(t, poddir.Config{Root: root})
			pod := webPod()
			must.Get(d.PreparePod(t.Context(), pod))(t)
			volume, source := filepath.Join(root, "pods/u-1/volumes/with space"), t.TempDir()
			must.Do(t, os.Mkdir(volume, 0o755))
			mount(t, source, volume, tt.kind, tt.flags)
			file := filepath.Join(volume, "precious")
			must.Do(t, os.WriteFile(file, nil, 0o600))
			beside := filepath.Join(root, "pods/u-1/volumes/beside")
			must.Do(t, os.WriteFile(beside, nil, 0o600))
			err := d.RemovePod(t.Context(), pod.UID)
			if !errors.Is(err, poddir.ErrMounted) || !strings.Contains(err.Error(), volume) {
				t.Errorf("%v, want ErrMounted and the mount named", err)
			}
			for _, f := range []string{file, beside} {
				if _, err := os.Stat(f); err != nil {
					t.Errorf("deleted although a mount is left: %v", err)
				}
			}
			must.Do(t, syscall.Unmount(volume, 0))
			must.Do(t, d.RemovePod(t.Context(), pod.UID))
		})
	}
}
