package volume_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/volume"
)

// needsMount skips the test if the process may not mount, and unmounts what the test
// leaves.
func needsMount(t *testing.T, dir string) {
	t.Helper()
	probe := t.TempDir()
	if err := syscall.Mount("tmpfs", probe, "tmpfs", 0, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	must.Do(t, syscall.Unmount(probe, 0))
	t.Cleanup(func() {
		left, _ := mounts.Below(dir)
		for _, point := range left {
			_ = syscall.Unmount(point, syscall.MNT_DETACH)
		}
	})
}

// privateDir returns a directory in a mount that propagates nothing.
func privateDir(t *testing.T) string {
	t.Helper()
	top := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	needsMount(t, top)
	for _, err := range []error{
		syscall.Mount("tmpfs", top, "tmpfs", 0, ""), syscall.Mount("", top, "", syscall.MS_PRIVATE, ""), os.Mkdir(filepath.Join(top, "root"), 0o700),
	} {
		must.Do(t, err)
	}
	return filepath.Join(top, "root")
}

// linesOf returns how many mounts there are at a path or below it, those included that others hide.
func linesOf(t *testing.T, path string) (n int) {
	t.Helper()
	text := must.Get(os.ReadFile("/proc/self/mountinfo"))(t)
	for line := range strings.Lines(string(text)) {
		if point := strings.Fields(line)[4]; point == path || strings.HasPrefix(point, path+"/") {
			n++
		}
	}
	return n
}

// mountTmpfs mounts an empty file system in memory on a new directory.
func mountTmpfs(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, errors.Join(os.Mkdir(dir, 0o700), syscall.Mount("tmpfs", dir, "tmpfs", 0, "")))
}

// The volumes in memory of an earlier agent stay, each mounted once, and a mount in the root appears in
// its copies. A second agent mounts nothing.
func TestRootIsShared(t *testing.T) {
	root := privateDir(t)
	secret, inner := filepath.Join(root, "secret"), filepath.Join(root, "secret", "in side")
	mountTmpfs(t, secret)
	mountTmpfs(t, inner)
	must.Do(t, os.WriteFile(filepath.Join(inner, "token"), nil, 0o600))
	for range 2 {
		must.Do(t, volume.ShareRoot(root))
		if shared, err := mounts.Shared(root); err != nil || !shared {
			t.Errorf("shared: %t, %v", shared, err)
		}
		if points, err := mounts.Below(root); err != nil || !slices.Equal(points, []string{inner, secret, root}) {
			t.Errorf("mounted: %q, %v", points, err)
		}
		if n := linesOf(t, root); n != 3 {
			t.Errorf("%d mounts, want the root and two volumes", n)
		}
		if _, err := os.Stat(filepath.Join(inner, "token")); err != nil {
			t.Error(err)
		}
	}
	replica := filepath.Join(filepath.Dir(root), "replica")
	must.Do(t, errors.Join(os.Mkdir(replica, 0o700), syscall.Mount(root, replica, "", syscall.MS_BIND, "")))
	mountTmpfs(t, filepath.Join(root, "late"))
	if at, err := mounts.At(filepath.Join(replica, "late")); err != nil || !at {
		t.Errorf("a mount in the root appears in its copy: %t, %v", at, err)
	}
}

// A root that is a mount already, or that an agent has left before it was shared, is bound no second time.
func TestRootThatIsAMount(t *testing.T) {
	root := privateDir(t)
	must.Do(t, syscall.Mount(root, root, "", syscall.MS_BIND, ""))
	link := filepath.Join(filepath.Dir(root), "link")
	must.Do(t, os.Symlink(root, link))
	must.Do(t, volume.ShareRoot(link))
	shared, err := mounts.Shared(root)
	if n := linesOf(t, root); n != 1 || !shared || err != nil {
		t.Errorf("%d mounts, shared: %t, %v", n, shared, err)
	}
}

// On a shared mount nothing is mounted.
func TestRootOnASharedMount(t *testing.T) {
	root := privateDir(t)
	must.Do(t, syscall.Mount("", filepath.Dir(root), "", syscall.MS_SHARED, ""))
	must.Do(t, volume.ShareRoot(filepath.Join(root, "new")))
	if n := linesOf(t, root); n != 0 {
		t.Errorf("%d mounts", n)
	}
	must.Get(os.Stat(filepath.Join(root, "new")))(t)
}

const sharedRoot = "PODSYNC_SHARED_ROOT"

// The error of an agent that may not mount names the directory, and wraps fs.ErrPermission.
func TestRootWithoutTheRightToMount(t *testing.T) {
	if root := os.Getenv(sharedRoot); root != "" {
		if err := volume.ShareRoot(root); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), root) {
			t.Errorf("%v, want an error about permission for %s", err, root)
		}
		return
	}
	root := privateDir(t)
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), sharedRoot+"="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER} // which has no rights on the mounts of this one
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Skipf("needs user namespaces: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if shared, err := mounts.Shared(root); shared || err != nil {
		t.Errorf("shared: %t, %v", shared, err)
	}
}
