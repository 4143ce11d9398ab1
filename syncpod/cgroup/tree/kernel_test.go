package tree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// realKernel returns a Tree on the kernel's cgroup file system, and its root cgroup, which the cleanup removes. It skips
// the test if cgroups cannot be written.
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

// On a real kernel a Tree sets the limits, kills the processes of the cgroup and of its children, and leaves no cgroup.
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
	must.Do(t, os.Mkdir(nested, 0o755))
	ended := sleeper(t, filepath.Join(nested, procs))
	must.Get(tree.RaiseCgroup(t.Context(), burstable("u-1", "250m", "128Mi")))(t)
	holds(t, filepath.Join(dir("memory"), limit), "134217728")
	holds(t, filepath.Join(dir("cpu"), shares), want)

	must.Do(t, tree.RemovePod(t.Context(), pod.UID))
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
		t.Errorf("it was in %s, want it to begin with %v", at, "/"+root+"/burstable/")
	}
}

func holds(t *testing.T, file, want string) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	if got := strings.TrimSpace(string(text)); got != want {
		t.Errorf("%s holds %s, want %s", file, got, want)
	}
}

// sleeper starts a process in a cgroup. The channel is closed when it has ended.
func sleeper(t *testing.T, list string) <-chan struct{} { return inCgroup(t, list, "exec sleep 1000") }

// inCgroup is like sleeper, for a shell script that runs in the cgroup.
func inCgroup(t *testing.T, list, script string) <-chan struct{} {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read -r go; "+script)
	start := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	must.Do(t, os.WriteFile(list, []byte(fmt.Sprint(cmd.Process.Pid)), 0))
	must.Get(start.Write([]byte("go\n")))(t)
	return ended
}

// version2 returns a Tree on a cgroup v2 hierarchy that is mounted for the test, with the
// controllers that version 1 does not use. It removes the test's cgroups at the end. The
// check for the controllers cpu and memory is skipped.
func version2(t *testing.T) *Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount cgroups")
	}
	mount := t.TempDir()
	if out, err := exec.Command("mount", "-t", "cgroup2", "none", mount).CombinedOutput(); err != nil {
		t.Skipf("needs cgroups of version 2: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mount).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if _, err := New(Config{State: t.TempDir(), Mount: mount}); err != nil && !strings.Contains(err.Error(), "there is no controller") {
		t.Errorf("error %v, want at most a missing controller", err)
	}
	tree := newKernel(t, cgroup.V2).agent(func(c *Config) { c.Root = fmt.Sprintf("podsync-test-%d", os.Getpid()) })
	tree.config.Mount, tree.afterMkdir, tree.beforeRemove = mount, nil, nil
	tree.kernel.controllers, tree.kernel.pages = map[string]string{}, nil
	text, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers"))
	must.Do(t, err)
	for _, c := range strings.Fields(string(text)) {
		tree.kernel.controllers[c] = "."
	}
	if tree.kernel.controllers["hugetlb"] != "" {
		if tree.kernel.pages, err = pageSizes("/sys/kernel/mm/hugepages"); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// On a real cgroup v2: controllers are delegated, limits of huge pages are set and
// read back, and all processes of a cgroup are killed at once, including forked ones, before it is removed.
func TestKernelVersion2(t *testing.T) {
	tree := version2(t)
	before := must.Get(os.ReadFile(filepath.Join(tree.config.Mount, "cgroup.subtree_control")))(t)
	const at = "/burstable/podu"
	root := tree.root.Path(cgroup.Cgroupfs)
	t.Cleanup(func() { leave(t, tree.config.Mount, root, string(before)) })
	limits := cgroup.Resources{HugePages: map[int64]int64{}}
	for _, size := range tree.kernel.pages {
		limits.HugePages[size] = 3 * size
	}
	must.Do(t, tree.in(func(mount *os.Root) error {
		for _, dir := range []string{root, root + "/burstable", root + at} {
			if err := tree.make(t.Context(), mount, dir); err != nil {
				return err
			}
		}
		for _, s := range cgroup.Settings(limits, cgroup.V2, tree.kernel.pages, true) {
			if err := tree.write(mount, root+at, s); err != nil {
				return err
			}
		}
		got, ok := tree.current(mount, root+at)
		if !ok || !reflect.DeepEqual(got.HugePages, limits.HugePages) || got.Memory != nil || got.CPUQuota != nil {
			t.Errorf("read back %+v, want %v", got, limits.HugePages)
		}
		return nil
	}))
	dir := filepath.Join(tree.config.Mount, root, at)
	nested := filepath.Join(dir, "ctr")
	must.Do(t, os.Mkdir(nested, 0o755))
	threaded(t, filepath.Join(nested, "threads"))
	ended := inCgroup(t, filepath.Join(nested, procs), "while :; do sleep 0.01 & done")
	must.Do(t, tree.in(func(mount *os.Root) error { return tree.remove(t.Context(), mount, root+at) }))
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("what forks runs on")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup is still there: %v", err)
	}
}

// threaded makes a threaded cgroup, as a container can: the kernel does not list processes there.
func threaded(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "cgroup.type"), []byte("threaded"), 0)))
	if _, err := os.ReadFile(filepath.Join(dir, procs)); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Fatalf("the processes of a threaded cgroup: %v, want %v", err, syscall.EOPNOTSUPP)
	}
}

// leave removes the test's cgroups at the top of a hierarchy, and disables the
// controllers that were enabled for them.
func leave(t *testing.T, mount, root, before string) {
	t.Helper()
	for _, dir := range []string{"burstable", ""} {
		if err := os.Remove(filepath.Join(mount, root, dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	control := filepath.Join(mount, "cgroup.subtree_control")
	now := must.Get(os.ReadFile(control))(t)
	for _, c := range strings.Fields(string(now)) {
		if !slices.Contains(strings.Fields(before), c) {
			if err := os.WriteFile(control, []byte("-"+c), 0); err != nil {
				t.Error(err)
			}
		}
	}
}
