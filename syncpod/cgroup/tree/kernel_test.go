package tree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// realKernel is an agent on the kernel's own trees, below a root of its own that is
// removed in the end. The test is skipped where that cannot be written.
func realKernel(t *testing.T) (*Tree, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups")
	}
	root := fmt.Sprintf("podsync-test-%d", os.Getpid())
	tree, err := New(Config{State: t.TempDir(), Root: root})
	if err != nil {
		t.Skip("needs the kernel's cgroups: ", err)
	}
	cpu := filepath.Join("/sys/fs/cgroup", tree.kernel.controllers["cpu"])
	if err := os.Mkdir(filepath.Join(cpu, root), 0o755); err != nil {
		t.Skip("needs cgroups that can be written: ", err)
	}
	t.Cleanup(func() {
		for _, name := range tree.kernel.trees {
			for _, below := range []string{"burstable", "besteffort", ""} {
				err := os.Remove(filepath.Join("/sys/fs/cgroup", name, root, below))
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Error(err)
				}
			}
		}
	})
	return tree, root
}

// On a kernel: the limits are in force, a process and one in a cgroup below are killed, and
// nothing is left.
func TestKernel(t *testing.T) {
	tree, root := realKernel(t)
	pod := burstable("u-1", "500m", "64Mi")
	at := ensure(t, tree, pod)
	dir := func(controller string) string {
		return filepath.Join("/sys/fs/cgroup", tree.kernel.controllers[controller], at)
	}
	limit, shares := "memory.limit_in_bytes", "cpu.shares"
	want := "512"
	if tree.kernel.version == cgroup.V2 {
		limit, shares, want = "memory.max", "cpu.weight", "20"
	}
	holds(t, filepath.Join(dir("memory"), limit), "67108864")
	holds(t, filepath.Join(dir("cpu"), shares), want)

	nested := filepath.Join(dir("memory"), "ctr")
	if err := os.Mkdir(nested, 0o755); err != nil {
		t.Fatal(err)
	}
	ended := sleeper(t, filepath.Join(nested, procs))
	if _, err := tree.RaiseCgroup(t.Context(), burstable("u-1", "250m", "128Mi")); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir("memory"), limit), "134217728")
	holds(t, filepath.Join(dir("cpu"), shares), want)

	if err := tree.RemoveCgroup(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the process runs on")
	}
	for _, name := range tree.kernel.trees {
		if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", name, at)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the cgroup is still there in %s: %v", name, err)
		}
	}
	if !strings.HasPrefix(at, "/"+root+"/burstable/") {
		t.Errorf("it was in %s", at)
	}
}

func holds(t *testing.T, file, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(text)); got != want {
		t.Errorf("%s holds %s, want %s", file, got, want)
	}
}

// sleeper starts a process in a cgroup. The channel is closed when it has ended.
func sleeper(t *testing.T, list string) <-chan struct{} {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	if err := os.WriteFile(list, []byte(fmt.Sprint(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	return ended
}
