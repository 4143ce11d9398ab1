package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// fakeKernel is a tree of files that simulates the kernel's files.
type fakeKernel struct {
	t     *testing.T
	dir   string
	state string
}

// files are the files of each cgroup, except cgroup.procs.
func files(tree string) []string {
	all := map[string][]string{
		"cpu":     {"cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"},
		"memory":  {"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"},
		"pids":    {"pids.max"},
		"freezer": nil,
		".": {
			"cpu.weight", "cpu.max", "memory.max", "memory.min", "memory.low", "memory.current", "memory.stat", "pids.max",
			"cgroup.controllers", "cgroup.subtree_control", "cgroup.kill",
		},
	}
	return append([]string{procs}, all[tree]...)
}

func newKernel(t *testing.T, v cgroup.Version) *fakeKernel {
	k := &fakeKernel{t: t, dir: t.TempDir(), state: t.TempDir()}
	trees := []string{"cpu", "memory", "pids", "freezer"}
	if v == cgroup.V2 {
		trees = []string{"."}
	}
	for _, tree := range trees {
		k.must(os.MkdirAll(filepath.Join(k.dir, tree), 0o755))
		for _, file := range files(tree) {
			k.write(path.Join(tree, file), "")
		}
	}
	if v == cgroup.V2 {
		k.write("cgroup.controllers", "cpuset cpu memory pids\n")
		return k
	}
	k.must(os.Symlink("cpu", filepath.Join(k.dir, "cpuacct")))
	return k
}

func (k *fakeKernel) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *fakeKernel) write(name, text string) {
	k.t.Helper()
	k.must(os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600))
}

// agent is a new Tree on these files.
func (k *fakeKernel) agent(adjust ...func(*Config)) *Tree {
	k.t.Helper()
	c := Config{Mount: k.dir, State: k.state, killTimeout: 5 * time.Second}
	for _, a := range adjust {
		a(&c)
	}
	t, err := New(c)
	k.must(err)
	t.afterMkdir = func(mount *os.Root, dir string) error {
		tree := "."
		if t.kernel.version == cgroup.V1 {
			tree, _, _ = strings.Cut(dir, "/")
		}
		for _, file := range files(tree) {
			k.must(mount.WriteFile(path.Join(dir, file), nil, 0o600))
		}
		return nil
	}
	t.beforeRemove = func(mount *os.Root, dir string) error {
		for _, tree := range []string{"cpu", "memory", "pids", "."} {
			for _, file := range files(tree) {
				_ = mount.Remove(path.Join(dir, file))
			}
		}
		return nil
	}
	return t
}

// has returns the content of a file, "gone" if it does not exist.
func (k *fakeKernel) has(name string) string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "gone"
	}
	k.must(err)
	return string(text)
}

func (k *fakeKernel) want(files map[string]string) {
	k.t.Helper()
	for name, want := range files {
		if got := k.has(name); got != want {
			k.t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

// burstable is a pod that requests CPU and limits memory.
func burstable(uid, cpu, memory string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID(uid)},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
			Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)},
		}}}},
	}
}

func ensure(t *testing.T, tree *Tree, pod *v1.Pod) string {
	t.Helper()
	parent := must.Get(tree.EnsureCgroup(t.Context(), pod))(t)
	return parent
}

func TestVersion1(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	tree := k.agent(func(c *Config) {
		c.PodPIDs = 99
		c.Allocatable = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi")}
	})
	if got := ensure(t, tree, burstable("u1", "500m", "64Mi")); got != "/kubepods/burstable/podu1" {
		t.Errorf("cgroup_parent %s, want %q", got, "/kubepods/burstable/podu1")
	}
	ensure(t, tree, burstable("u2", "1", "64Mi"))
	k.want(map[string]string{
		"cpu/kubepods/cpu.shares":                               "4096",
		"memory/kubepods/memory.limit_in_bytes":                 "1073741824",
		"cpu/kubepods/burstable/cpu.shares":                     "1536",
		"cpu/kubepods/burstable/podu1/cpu.shares":               "512",
		"cpu/kubepods/burstable/podu1/cpu.cfs_quota_us":         "-1",
		"memory/kubepods/burstable/podu1/memory.limit_in_bytes": "67108864",
		"pids/kubepods/burstable/podu1/pids.max":                "99",
		"freezer/kubepods/cgroup.procs":                         "gone",
		"memory/kubepods/besteffort/memory.limit_in_bytes":      "gone",
	})
	must.Do(t, tree.RemovePod(t.Context(), "u2"))
	k.want(map[string]string{"cpu/kubepods/burstable/cpu.shares": "512", "cpu/kubepods/burstable/podu2/cpu.shares": "gone"})
}

func TestVersion2(t *testing.T) {
	k := newKernel(t, cgroup.V2)
	tree := k.agent(func(c *Config) { c.MemoryReservation, c.Root = true, "edge/pods" })
	pod := burstable("u1", "500m", "64Mi")
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("32Mi")
	if got := ensure(t, tree, pod); got != "/edge/pods/burstable/podu1" {
		t.Errorf("cgroup_parent %s, want %q", got, "/edge/pods/burstable/podu1")
	}
	k.want(map[string]string{
		"edge/cpu.weight":                      "",
		"edge/pods/cpu.weight":                 "",
		"edge/pods/memory.max":                 "max",
		"edge/pods/memory.low":                 "33554432",
		"edge/pods/burstable/cpu.weight":       "20",
		"edge/pods/burstable/memory.low":       "33554432",
		"edge/pods/burstable/podu1/cpu.weight": "20",
		"edge/pods/burstable/podu1/cpu.max":    "max 100000",
		"edge/pods/burstable/podu1/memory.max": "67108864",
		"edge/pods/burstable/podu1/memory.low": "33554432",
		"edge/pods/cgroup.subtree_control":     "+pids", // each controller is a separate write
	})
}

// A pod with exclusive CPUs has no quota.
func TestExclusiveCPUs(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	tree := k.agent(func(c *Config) { c.ExclusiveCPUs = func(pod types.UID) bool { return pod == "own" } })
	for uid, quota := range map[string]string{"own": "-1", "other": "200000"} {
		pod := burstable(uid, "2", "64Mi")
		pod.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse("2")
		ensure(t, tree, pod)
		k.want(map[string]string{"cpu/kubepods/burstable/pod" + uid + "/cpu.cfs_quota_us": quota})
	}
}

// Only changed values are written.
func TestOnlyChangesAreWritten(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	tree := k.agent()
	ensure(t, tree, burstable("u", "1", "64Mi"))
	const shares, limit = "cpu/kubepods/burstable/podu/cpu.shares", "memory/kubepods/burstable/podu/memory.limit_in_bytes"
	k.write(shares, "untouched")
	ensure(t, tree, burstable("u", "1", "64Mi"))
	k.want(map[string]string{shares: "untouched"})
	ensure(t, tree, burstable("u", "1", "128Mi"))
	k.want(map[string]string{shares: "1024", limit: "134217728"})
	k.must(os.RemoveAll(filepath.Join(k.dir, "memory/kubepods")))
	k.must(os.RemoveAll(filepath.Join(k.dir, "cpu/kubepods")))
	k.must(os.RemoveAll(filepath.Join(k.dir, "pids/kubepods")))
	ensure(t, tree, burstable("u", "1", "128Mi"))
	k.want(map[string]string{shares: "1024", limit: "134217728"})
}

// A resize raises limits first and lowers them last, and never below the usage.
func TestResize(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	tree := k.agent()
	ensure(t, tree, burstable("u", "2", "64Mi"))
	const shares, limit = "cpu/kubepods/burstable/podu/cpu.shares", "memory/kubepods/burstable/podu/memory.limit_in_bytes"
	next := burstable("u", "1", "128Mi")
	must.Get(tree.RaiseCgroup(t.Context(), next))(t)
	k.want(map[string]string{shares: "2048", limit: "134217728"})
	ensure(t, tree, next)
	k.want(map[string]string{shares: "1024", limit: "134217728"})
	k.write("memory/kubepods/burstable/podu/memory.usage_in_bytes", "99999999\n")
	if _, err := tree.EnsureCgroup(t.Context(), burstable("u", "1", "64Mi")); !errors.Is(err, cgroup.ErrMemoryInUse) {
		t.Errorf("error %v, want %v", err, cgroup.ErrMemoryInUse)
	}
	k.want(map[string]string{limit: "134217728"})
	k.write("memory/kubepods/burstable/podu/memory.usage_in_bytes", "5\n")
	ensure(t, tree, burstable("u", "1", "64Mi"))
	k.want(map[string]string{limit: "67108864"})
}

// A resize does not lower the limits of an earlier agent before the containers are
// changed: the current limits are read from the kernel.
func TestResizeAfterARestart(t *testing.T) {
	for version, want := range map[cgroup.Version]map[string]string{
		cgroup.V1: {
			"cpu/kubepods/burstable/podu/cpu.shares": "2048", "cpu/kubepods/burstable/podu/cpu.cfs_quota_us": "200000",
			"memory/kubepods/burstable/podu/memory.limit_in_bytes": "134217728", "pids/kubepods/burstable/podu/pids.max": "max",
		},
		cgroup.V2: {
			"kubepods/burstable/podu/cpu.weight": "79", "kubepods/burstable/podu/cpu.max": "200000 100000",
			"kubepods/burstable/podu/memory.max": "134217728", "kubepods/burstable/podu/pids.max": "max",
		},
	} {
		k := newKernel(t, version)
		with := func(cpu, memory string) *v1.Pod {
			p := burstable("u", cpu, memory)
			p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = resource.MustParse(cpu)
			return p
		}
		ensure(t, k.agent(), with("2", "64Mi"))
		next := k.agent()
		must.Get(next.RaiseCgroup(t.Context(), with("1", "128Mi")))(t)
		k.want(want)
		ensure(t, next, with("1", "32Mi"))
		must.Get(k.agent().RaiseCgroup(t.Context(), with("1", "16Mi")))(t)
		for file, before := range want {
			if got := k.has(file); strings.Contains(file, "memory") && got != "33554432" || strings.Contains(file, "cpu.shares") && (got == before || got != "1024") {
				t.Errorf("version %d: %s holds %s", version, file, got)
			}
		}
	}
}

// Unreadable values of a cgroup count as unlimited: nothing is lowered.
func TestRaiseOfAnUnreadableLimit(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	ensure(t, k.agent(), burstable("u", "1", "64Mi"))
	const limit = "memory/kubepods/burstable/podu/memory.limit_in_bytes"
	for _, text := range []string{"", "many\n", "9223372036854771712\n", "-1"} {
		k.write(limit, text)
		must.Get(k.agent().RaiseCgroup(t.Context(), burstable("u", "1", "32Mi")))(t)
		k.want(map[string]string{limit: "-1"})
	}
}

// What can be reclaimed is not in use.
func TestReclaimableMemory(t *testing.T) {
	for version, files := range map[cgroup.Version][2]string{
		cgroup.V1: {"memory/kubepods/burstable/podu/memory.usage_in_bytes", "memory/kubepods/burstable/podu/memory.stat"},
		cgroup.V2: {"kubepods/burstable/podu/memory.current", "kubepods/burstable/podu/memory.stat"},
	} {
		k := newKernel(t, version)
		tree := k.agent()
		ensure(t, tree, burstable("u", "1", "64Mi"))
		k.write(files[0], "50000000\n")
		k.write(files[1], "cache 5\ninactive_file 40000000\ntotal_inactive_file 40000000\n")
		if _, err := tree.EnsureCgroup(t.Context(), burstable("u", "1", "9Mi")); !errors.Is(err, cgroup.ErrMemoryInUse) || !strings.Contains(err.Error(), "memory limit (9437184) below current usage (10000000)") {
			t.Errorf("version %d: error %v", version, err)
		}
		ensure(t, tree, burstable("u", "1", "10Mi"))
	}
}

// The requested resources are lowered first and raised last.
func TestOrderOfSettings(t *testing.T) {
	for _, version := range []cgroup.Version{cgroup.V1, cgroup.V2} {
		list := cgroup.Settings(cgroup.Resources{CPUShares: 5}, version, nil, false)
		for raise, at := range map[bool]int{false: 0, true: len(list) - 1} {
			if got := inOrder(slices.Clone(list), raise); len(got) != len(list) || !got[at].Requests() {
				t.Errorf("version %d, raise %v: %v", version, raise, got)
			}
		}
		if got := inOrder(cgroup.Settings(cgroup.Resources{}, version, nil, false), true); len(got) != len(list)-1 {
			t.Errorf("without shares: %v", got)
		}
	}
}

// process starts a process that ignores SIGTERM, and lists it in files as a kernel
// does while it runs.
func (k *fakeKernel) process(in ...string) *exec.Cmd {
	k.t.Helper()
	cmd := exec.Command("sleep", "1000")
	k.must(cmd.Start())
	for _, name := range in {
		k.write(name, fmt.Sprintln(cmd.Process.Pid))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
		for _, name := range in {
			_ = os.WriteFile(filepath.Join(k.dir, name), nil, 0o600)
		}
	}()
	k.t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return cmd
}

// What runs in a cgroup that is removed is killed first, also where the runtime has put
// it, in trees that have no settings, and by the next agent.
func TestRemoveKills(t *testing.T) {
	for name, restart := range map[string]bool{"the same agent": false, "the next agent": true} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t, cgroup.V1)
			tree := k.agent()
			pod := burstable("u", "1", "64Mi")
			ensure(t, tree, pod)
			for _, dir := range []string{"memory/kubepods/burstable/podu/ctr", "freezer/kubepods/burstable/podu/ctr"} {
				k.must(os.MkdirAll(filepath.Join(k.dir, dir), 0o755))
			}
			one := k.process("memory/kubepods/burstable/podu/ctr/cgroup.procs")
			other := k.process("freezer/kubepods/burstable/podu/ctr/cgroup.procs")
			if restart {
				tree = k.agent()
			}
			must.Do(t, tree.RemovePod(t.Context(), pod.UID))
			for _, p := range []*exec.Cmd{one, other} {
				if err := p.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("a process was not killed: %v", err)
				}
			}
			for _, tree := range []string{"cpu", "memory", "pids", "freezer"} {
				if _, err := os.Stat(filepath.Join(k.dir, tree, "kubepods/burstable/podu")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("it is still there in %s: %v", tree, err)
				}
			}
			k.want(map[string]string{"cpu/kubepods/burstable/cpu.shares": map[bool]string{false: "2", true: "1024"}[restart]})
			must.Do(t, tree.RemovePod(t.Context(), pod.UID))
		})
	}
}

// cgroup v2 kills all processes of a cgroup at once, including those that are forked meanwhile.
func TestRemoveKillsAtOnce(t *testing.T) {
	for name, older := range map[string]bool{"a kernel": false, "an older kernel": true} {
		k := newKernel(t, cgroup.V2)
		tree := k.agent()
		pod := burstable("u", "1", "64Mi")
		ensure(t, tree, pod)
		if older {
			k.must(os.Remove(filepath.Join(k.dir, "kubepods/burstable/podu/cgroup.kill")))
		}
		runs := k.process("kubepods/burstable/podu/cgroup.procs")
		remove := tree.beforeRemove
		tree.beforeRemove = func(mount *os.Root, dir string) error {
			if got := k.has(path.Join(dir, "cgroup.kill")); !older && got != "1" {
				t.Errorf("%s: cgroup.kill holds %q", name, got)
			}
			return remove(mount, dir)
		}
		if err := tree.RemovePod(t.Context(), pod.UID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := runs.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: a process was not killed: %v", name, err)
		}
	}
}

// An existing cgroup is used, and keeps its processes.
func TestCgroupOfOthersStays(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	k.agent(func(c *Config) { c.State = t.TempDir() }).EnsureCgroup(t.Context(), burstable("u", "1", "64Mi"))
	theirs := k.process("cpu/kubepods/burstable/podu/cgroup.procs")
	tree := k.agent()
	ensure(t, tree, burstable("u", "1", "32Mi"))
	for _, uid := range []types.UID{"u", "never-seen"} {
		must.Do(t, tree.RemovePod(t.Context(), uid))
	}
	k.want(map[string]string{"memory/kubepods/burstable/podu/memory.limit_in_bytes": "33554432"})
	if !slices.Contains(strings.Fields(k.has("cpu/kubepods/burstable/podu/cgroup.procs")), strconv.Itoa(theirs.Process.Pid)) {
		t.Error("what runs in it was killed")
	}
}

// A protected process is not killed, and its cgroup stays.
func TestNeverKilled(t *testing.T) {
	for name, pid := range map[string]int{"of another namespace": 0, "the first": 1, "the agent": os.Getpid(), "a negative number": -7} {
		k := newKernel(t, cgroup.V1)
		tree := k.agent()
		ensure(t, tree, burstable("u", "1", "64Mi"))
		k.write("cpu/kubepods/burstable/podu/cgroup.procs", fmt.Sprintln(pid))
		if err := tree.RemovePod(t.Context(), "u"); err == nil || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
			t.Errorf("%s: error %v, want an error and %v in it", name, err, strconv.Itoa(pid))
		}
		k.want(map[string]string{"cpu/kubepods/burstable/podu/cpu.shares": "1024"})
		k.write("cpu/kubepods/burstable/podu/cgroup.procs", "")
		if err := tree.RemovePod(t.Context(), "u"); err != nil {
			t.Errorf("%s: it cannot be removed later: %v", name, err)
		}
	}
}

// No link leads out of the mount, and no UID out of the tree.
func TestNothingIsDoneElsewhere(t *testing.T) {
	outside := t.TempDir()
	k := newKernel(t, cgroup.V1)
	k.must(os.Symlink(outside, filepath.Join(k.dir, "memory", "kubepods")))
	tree := k.agent()
	if _, err := tree.EnsureCgroup(t.Context(), burstable("u", "1", "64Mi")); err == nil || !strings.Contains(err.Error(), "kubepods") {
		t.Errorf("error %v, want an error and %q in it", err, "kubepods")
	}
	for _, uid := range []string{"", "../..", "a/b"} {
		if _, err := tree.EnsureCgroup(t.Context(), burstable(uid, "1", "64Mi")); err == nil || !strings.Contains(err.Error(), "metadata.uid") {
			t.Errorf("uid %q: error %v", uid, err)
		}
		if err := tree.RemovePod(t.Context(), types.UID(uid)); err == nil || !strings.Contains(err.Error(), "metadata.uid") {
			t.Errorf("uid %q is removed: error %v", uid, err)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there is %v, error %v", left, err)
	}
}

func TestBadConfig(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	for want, c := range map[string]Config{
		"Config.State is \"\"":        {Mount: k.dir},
		"Config.State is \"x\"":       {Mount: k.dir, State: "x"},
		"Config.Mount is \"cgroup\"":  {Mount: "cgroup", State: k.state},
		"there is no controller cpu":  {Mount: t.TempDir(), State: k.state},
		"no such file":                {Mount: "/nonexistent", State: k.state},
		"Config.Root":                 {Mount: k.dir, State: k.state, Root: "a/../b"},
		"is the root of the tree":     {Mount: k.dir, State: k.state, Root: "/"},
		"Config.Driver is \"cgroup\"": {Mount: k.dir, State: k.state, Driver: "cgroup"},
		"Config.Slices is missing":    {Mount: k.dir, State: k.state, Driver: cgroup.Systemd},
		"Config.PodPIDs is -1":        {Mount: k.dir, State: k.state, PodPIDs: -1},
		"Config.KillTimeout is -1ns":  {Mount: k.dir, State: k.state, killTimeout: -1},
		"allocatable memory is -5":    {Mount: k.dir, State: k.state, Allocatable: v1.ResourceList{"memory": resource.MustParse("-5")}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if _, err := k.agent().EnsureCgroup(t.Context(), nil); err == nil {
		t.Error("no pod: no error")
	}
}

// A limit that the kernel cannot keep is an error, not a silence.
func TestMissingController(t *testing.T) {
	k := newKernel(t, cgroup.V1)
	k.must(os.RemoveAll(filepath.Join(k.dir, "pids")))
	ensure(t, k.agent(), burstable("u", "1", "64Mi"))
	limited := k.agent(func(c *Config) { c.PodPIDs = 5 })
	if _, err := limited.EnsureCgroup(t.Context(), burstable("v", "1", "64Mi")); err == nil || !strings.Contains(err.Error(), "no controller pids") {
		t.Errorf("error %v, want an error and %q in it", err, "no controller pids")
	}
}

// fakeSlices records its calls.
type fakeSlices struct {
	asked []string
	fail  error
}

func (s *fakeSlices) SetSlice(_ context.Context, path string, r cgroup.Resources) error {
	s.asked = append(s.asked, fmt.Sprintf("set %s %d", path, r.CPUShares))
	return s.fail
}

func (s *fakeSlices) LimitSlice(_ context.Context, path string, r cgroup.Resources) error {
	s.asked = append(s.asked, fmt.Sprintf("limit %s %d %d", path, r.CPUShares, *r.Memory))
	return s.fail
}

func (s *fakeSlices) RemoveSlice(_ context.Context, path string) error {
	s.asked = append(s.asked, "remove "+path)
	return s.fail
}

func TestSystemd(t *testing.T) {
	k := newKernel(t, cgroup.V2)
	s := &fakeSlices{}
	tree := k.agent(func(c *Config) { c.Driver, c.Slices, c.Root = cgroup.Systemd, s, "edge/kubepods" })
	const at = "/edge.slice/edge-kubepods.slice/edge-kubepods-burstable.slice"
	if got := ensure(t, tree, burstable("a-b", "1", "64Mi")); got != at+"/edge-kubepods-burstable-poda_b.slice" {
		t.Errorf("cgroup_parent %s, want %v", got, at+"/edge-kubepods-burstable-poda_b.slice")
	}
	k.must(os.MkdirAll(filepath.Join(k.dir, at, "edge-kubepods-burstable-poda_b.slice"), 0o755)) // as systemd does
	must.Do(t, tree.RemovePod(t.Context(), "a-b"))
	want := []string{
		"set /edge.slice 0", "set /edge.slice/edge-kubepods.slice 0", "set " + at + " 1024", "set " + at + "/edge-kubepods-burstable-poda_b.slice 1024",
	}
	want = append(want, "remove "+at+"/edge-kubepods-burstable-poda_b.slice", "set "+at+" 2")
	if !reflect.DeepEqual(s.asked, want) {
		t.Errorf("asked for %q, want %q", s.asked, want)
	}
	s.fail = errors.New("no bus")
	if _, err := tree.EnsureCgroup(t.Context(), burstable("c", "1", "64Mi")); !errors.Is(err, s.fail) {
		t.Errorf("error %v", err)
	}
}
