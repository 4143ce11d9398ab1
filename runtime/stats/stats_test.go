package stats_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/stats"
)

// statsRuntime is a runtime that returns what a test sets, or that does not implement a call.
type statsRuntime struct {
	pods       []*runtimeapi.PodSandboxStats
	containers []*runtimeapi.ContainerStats
	images     *runtimeapi.ImageFsInfoResponse
	err        error // instead of that
	takes      time.Duration
}

var missing = status.Error(codes.Unimplemented, "unknown method")

func (t *statsRuntime) fault(has bool) error {
	if t.err == nil && !has {
		return missing
	}
	return t.err
}

func (t *statsRuntime) ListPodSandboxStats(ctx context.Context, _ *runtimeapi.ListPodSandboxStatsRequest, _ ...grpc.CallOption) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	if t.takes > 0 {
		select {
		case <-time.After(t.takes):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	return &runtimeapi.ListPodSandboxStatsResponse{Stats: t.pods}, t.fault(t.pods != nil)
}

func (t *statsRuntime) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest, ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error) {
	return &runtimeapi.ListContainerStatsResponse{Stats: t.containers}, t.fault(t.containers != nil)
}

func (t *statsRuntime) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	return t.images, t.fault(t.images != nil)
}

// proc is the /proc of a node.
var proc = fstest.MapFS{
	"proc/stat": file("cpu  1000 100 500 90000 700 10 20 33 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 5 5 5\nbtime 1790000000\nprocesses 7\n"),
	"proc/meminfo": file("MemTotal:        8000000 kB\nMemFree:         3000000 kB\nBuffers:           10000 kB\nCached:          2000000 kB\nSwapCached:         5000 kB\n" +
		"Inactive(file):  1500000 kB\nAnonPages:       1000000 kB\nHugePages_Total:       0\n"),
	"proc/loadavg":                file("0.10 0.20 0.30 2/345 6789\n"),
	"proc/sys/kernel/pid_max":     file("4194304\n"),
	"proc/sys/kernel/threads-max": file("1000\n"),
	"proc/1/net/dev": file(netHead + "    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 5000 50 3 0 0 0 0 0 700 7 1 0 0 0 0 0\n" +
		"veth12: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n  ens5:8 8 0 0 0 0 0 0 4 4 0 0 0 0 0 0\n"),
}

const netHead = "Inter-|   Receive                                                |  Transmit\n" +
	" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// A layout is the place of a pod's cgroups on a kind of node.
type layout struct {
	name                    string
	unified                 bool
	pod, sandbox, container string
}

var layouts = []layout{
	{"v2, cgroupfs", true, "kubepods/burstable/podu-1-2", "kubepods/burstable/podu-1-2/sand", "kubepods/burstable/podu-1-2/cont"},
	{"v2, systemd and containerd", true, "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1_2.slice",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1_2.slice/cri-containerd-sand.scope",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1_2.slice/cri-containerd-cont.scope"},
	{"v2, systemd and CRI-O", true, "kubepods.slice/kubepods-podu_1_2.slice",
		"kubepods.slice/kubepods-podu_1_2.slice/crio-sand.scope", "kubepods.slice/kubepods-podu_1_2.slice/crio-cont.scope/container"},
	{"v1, cgroupfs", false, "kubepods/podu-1-2", "kubepods/podu-1-2/sand", "kubepods/podu-1-2/cont"},
	{"v1, systemd", false, "kubepods.slice/kubepods-podu_1_2.slice",
		"kubepods.slice/kubepods-podu_1_2.slice/cri-containerd-sand.scope", "kubepods.slice/kubepods-podu_1_2.slice/cri-containerd-cont.scope"},
}

// tree returns a node with that pod: the container has used cpu seconds, and its memory has the given usage, inactive
// part and limit.
func (l layout) tree() fstest.MapFS {
	tree := maps.Clone(proc)
	tree["proc/77/net/dev"] = file(netHead + "  eth0: 600 6 0 0 0 0 0 0 300 3 0 0 0 0 0 0\n")
	if l.unified {
		tree["sys/fs/cgroup/cgroup.controllers"] = file("cpu memory\n")
		tree["sys/fs/cgroup/cpu.stat"] = file("usage_usec 1\n")
	}
	l.add(tree, l.pod, 5, 3000, 1000, 10000)
	l.add(tree, strings.TrimSuffix(l.container, "/container"), 4, 2000, 500, 0)
	l.add(tree, "kubepods.slice/crio-conmon-cont.scope", 77, 77, 7, 0)
	l.add(tree, l.sandbox, 1, 100, 200, 0)
	procs := "sys/fs/cgroup/" + l.sandbox + "/cgroup.procs"
	if !l.unified {
		procs = "sys/fs/cgroup/memory/" + l.sandbox + "/cgroup.procs"
	}
	tree[procs] = file("77\n")
	return tree
}

func (l layout) add(tree fstest.MapFS, at string, cpu, usage, inactive, limit int) {
	n := func(i int) string { return string(must(json.Marshal(i))) }
	if l.unified {
		dir := "sys/fs/cgroup/" + at + "/"
		tree[dir+"cpu.stat"] = file("usage_usec " + n(cpu) + "000000\nuser_usec 1\n")
		tree[dir+"memory.current"] = file(n(usage) + "\n")
		tree[dir+"memory.stat"] = file("anon 40\nfile 7\ninactive_file " + n(inactive) + "\npgfault 3\npgmajfault 2\n")
		tree[dir+"memory.max"] = file("max\n")
		if limit > 0 {
			tree[dir+"memory.max"] = file(n(limit) + "\n")
		}
		return
	}
	tree["sys/fs/cgroup/cpuacct/"+at+"/cpuacct.usage"] = file(n(cpu) + "000000000\n")
	dir := "sys/fs/cgroup/memory/" + at + "/"
	tree[dir+"memory.usage_in_bytes"] = file(n(usage) + "\n")
	tree[dir+"memory.stat"] = file("inactive_file 1\ntotal_inactive_file " + n(inactive) + "\ntotal_rss 40\ntotal_pgfault 3\ntotal_pgmajfault 2\n")
	tree[dir+"memory.limit_in_bytes"] = file("9223372036854771712\n")
	if limit > 0 {
		tree[dir+"memory.limit_in_bytes"] = file(n(limit) + "\n")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// pod returns a pod with a container that runs, and one that has ended.
func pod() *runtime.PodStatus {
	return &runtime.PodStatus{
		UID: "u-1-2", Name: "web", Namespace: "default",
		Sandboxes: []runtime.SandboxStatus{{ID: "sand", State: runtime.SandboxReady, CreatedAt: time.Unix(1790000100, 0)}},
		Containers: []runtime.ContainerStatus{
			{Name: "app", ID: runtime.ContainerID{Type: "t", ID: "cont"}, State: runtime.ContainerRunning, StartedAt: time.Unix(1790000200, 0)},
			{Name: "setup", ID: runtime.ContainerID{Type: "t", ID: "over"}, State: runtime.ContainerExited},
		},
	}
}

func reader(t testing.TB, rt stats.Runtime, root fs.FS) *stats.Reader {
	t.Helper()
	r, err := stats.New(stats.Config{Runtime: rt, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// bare returns the figures without the times of reading, as JSON.
func bare(t testing.TB, v any) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal(must(json.Marshal(v)), &tree); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		if m, ok := v.(map[string]any); ok {
			delete(m, "time")
			for _, below := range m {
				strip(below)
			}
		}
	}
	strip(tree)
	return string(must(json.Marshal(tree)))
}

func same(t testing.TB, what string, got any, want string) {
	t.Helper()
	if text := bare(t, got); text != want {
		t.Errorf("%s:\n%s, want\n%s", what, text, want)
	}
}

func TestNode(t *testing.T) {
	got, err := reader(t, &statsRuntime{}, proc).Read(t.Context(), nil)
	if err != nil {
		t.Error(err)
	}
	n := got.Node
	same(t, "CPU", n.CPU, `{"usageCoreNanoSeconds":16300000000}`)
	same(t, "memory", n.Memory, `{"availableBytes":6640640000,"rssBytes":1024000000,"usageBytes":3087360000,"workingSetBytes":1551360000}`)
	same(t, "rlimit", n.Rlimit, `{"curproc":345,"maxpid":1000}`)
	same(t, "network", n.Network, `{"interfaces":[{"name":"eth0","rxBytes":5000,"rxErrors":3,"txBytes":700,"txErrors":1},`+
		`{"name":"ens5","rxBytes":8,"rxErrors":0,"txBytes":4,"txErrors":0}],"name":"eth0","rxBytes":5000,"rxErrors":3,"txBytes":700,"txErrors":1}`)
	if n.BootTime.Unix() != 1790000000 {
		t.Errorf("boot time %v", n.BootTime)
	}
	got, err = reader(t, &statsRuntime{}, proc).ReadCPUAndMemory(t.Context(), nil)
	if n := got.Node; err != nil || n.CPU == nil || n.Memory == nil || n.Network != nil || n.FS != nil || n.ImageFS != nil || n.Rlimit != nil {
		t.Errorf("CPU and memory alone: %+v, %v", n, err)
	}
}

// The node's own usage is read without a call for any pod.
func TestReadNode(t *testing.T) {
	tree := maps.Clone(proc)
	rt := &statsRuntime{}
	n, err := reader(t, rt, tree).ReadNode(t.Context())
	if err != nil || n.CPU != nil {
		t.Errorf("%+v, %v, want no CPU and no error", n, err)
	}
	same(t, "rlimit", n.Rlimit, `{"curproc":345,"maxpid":1000}`)
	same(t, "memory", n.Memory, `{"availableBytes":6640640000,"rssBytes":1024000000,"usageBytes":3087360000,"workingSetBytes":1551360000}`)
	for _, text := range []string{"", "0.1\n", "0.1 0.2 0.3 many 5\n", "0.1 0.2 0.3 1/-5 5\n"} {
		tree["proc/loadavg"] = file(text)
		if n, err := reader(t, rt, tree).ReadNode(t.Context()); err == nil || !strings.Contains(err.Error(), "proc/loadavg") || n.Rlimit.NumOfRunningProcesses != nil || n.Memory == nil {
			t.Errorf("%q: %+v, %v, want memory, no number of processes, and an error with %q in it", text, n, err, "proc/loadavg")
		}
	}
}

// The memory of all pods is that of their cgroup. Without that cgroup it is unknown.
func TestReadNodeWithTheCgroupOfAllPods(t *testing.T) {
	for _, l := range layouts {
		for cgroup, want := range map[string]string{"/" + l.pod: `{"availableBytes":8000,"majorPageFaults":2,"pageFaults":3,"rssBytes":40,"usageBytes":3000,"workingSetBytes":2000}`, "/missing": "null", "": "null"} {
			tree := l.tree()
			r, err := stats.New(stats.Config{Runtime: &statsRuntime{}, Root: tree, PodsCgroup: cgroup})
			if err != nil {
				t.Fatal(err)
			}
			n, err := r.ReadNode(t.Context())
			if err != nil {
				t.Errorf("%s, %s: %v", l.name, cgroup, err)
			}
			same(t, l.name+", "+cgroup, n.PodsMemory, want)
		}
	}
}

func TestCgroups(t *testing.T) {
	for _, l := range layouts {
		got, err := reader(t, &statsRuntime{}, l.tree()).Read(t.Context(), []*runtime.PodStatus{pod(), nil, {UID: "without"}})
		if err != nil || len(got.Pods) != 1 || len(got.Pods[0].Containers) != 1 {
			t.Errorf("%s: %+v, %v", l.name, got.Pods, err)
			continue
		}
		p := got.Pods[0]
		c := p.Containers[0]
		if p.Name != "web" || p.Namespace != "default" || p.UID != "u-1-2" || p.StartTime.Unix() != 1790000100 || c.Name != "app" || c.StartTime.Unix() != 1790000200 {
			t.Errorf("%s: %+v, want Name %q and Namespace %q and UID %q and Unix 1790000100 and Name %q and Unix 1790000200", l.name, p, "web", "default", "u-1-2", "app")
		}
		same(t, l.name+", pod", p.CPU, `{"usageCoreNanoSeconds":5000000000}`)
		same(t, l.name+", pod", p.Memory, `{"availableBytes":8000,"majorPageFaults":2,"pageFaults":3,"rssBytes":40,"usageBytes":3000,"workingSetBytes":2000}`)
		same(t, l.name+", container", c.CPU, `{"usageCoreNanoSeconds":4000000000}`)
		same(t, l.name+", container", c.Memory, `{"majorPageFaults":2,"pageFaults":3,"rssBytes":40,"usageBytes":2000,"workingSetBytes":1500}`)
		same(t, l.name+", network", p.Network, `{"interfaces":[{"name":"eth0","rxBytes":600,"rxErrors":0,"txBytes":300,"txErrors":0}],"name":"eth0","rxBytes":600,"rxErrors":0,"txBytes":300,"txErrors":0}`)
	}
}

func TestWorkingSetIsNotNegative(t *testing.T) {
	l := layouts[0]
	tree := l.tree()
	l.add(tree, l.container, 1, 100, 200, 0)
	got, err := reader(t, &statsRuntime{}, tree).Read(t.Context(), []*runtime.PodStatus{pod()})
	if err != nil || *got.Pods[0].Containers[0].Memory.WorkingSetBytes != 0 {
		t.Errorf("%+v, %v, want 0 and no error", got.Pods, err)
	}
}

func TestUsageOfAPodWithoutCgroupIsThatOfItsContainers(t *testing.T) {
	l := layout{unified: true, pod: "elsewhere", sandbox: "k8s.io/sand", container: "k8s.io/cont"}
	tree := l.tree()
	l.add(tree, "k8s.io/cont2", 10, 1000, 0, 0)
	p := pod()
	p.Containers = append(p.Containers, runtime.ContainerStatus{Name: "side", ID: runtime.ContainerID{Type: "t", ID: "cont2"}, State: runtime.ContainerRunning})
	got, err := reader(t, &statsRuntime{}, tree).Read(t.Context(), []*runtime.PodStatus{p})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pod", got.Pods[0].CPU, `{"usageCoreNanoSeconds":14000000000}`)
	same(t, "pod", got.Pods[0].Memory, `{"majorPageFaults":4,"pageFaults":6,"rssBytes":80,"usageBytes":3000,"workingSetBytes":2500}`)
}

// The CPU time of a pod without its own cgroup does not decrease when one of its containers is removed.
func TestSumOfContainersDoesNotFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layout{unified: true, pod: "elsewhere", sandbox: "k8s.io/sand", container: "k8s.io/cont"}
		tree := l.tree()
		l.add(tree, "k8s.io/cont2", 10, 1000, 0, 0)
		r, p := reader(t, &statsRuntime{}, tree), pod()
		side := runtime.ContainerStatus{Name: "side", ID: runtime.ContainerID{Type: "t", ID: "cont2"}, State: runtime.ContainerRunning}
		p.Containers = append(p.Containers, side)
		used := func(want uint64) {
			t.Helper()
			time.Sleep(15 * time.Second)
			got, err := r.Read(t.Context(), []*runtime.PodStatus{p})
			if err != nil || *got.Pods[0].CPU.UsageCoreNanoSeconds != want*1e9 {
				t.Errorf("%s, %v, want %d s", bare(t, got.Pods[0].CPU), err, want)
			}
		}
		used(14)
		p.Containers[2].State = runtime.ContainerExited
		used(14)
		side.ID.ID = "cont3"
		p.Containers = append(p.Containers, side)
		l.add(tree, "k8s.io/cont3", 1, 1000, 0, 0)
		used(15)
	})
}

// Before the agent has searched for a pod's cgroup, it reports no figure that it would have to take back: the usage of init
// containers is in the cgroup, and not in the sum of the running containers.
func TestPodIsNotSummedUpBeforeItIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layouts[0]
		tree := l.tree()
		r := reader(t, &statsRuntime{containers: []*runtimeapi.ContainerStats{ofContainer()}}, tree)
		other := pod()
		other.UID, other.Sandboxes[0].ID, other.Containers[0].ID.ID = "u-0", "sand0", "cont0"
		read := func(p *runtime.PodStatus) *stats.CPU {
			t.Helper()
			got, err := r.Read(t.Context(), []*runtime.PodStatus{p})
			if err != nil {
				t.Fatal(err)
			}
			return got.Pods[0].CPU
		}
		read(other)
		time.Sleep(time.Second)
		if got := read(pod()); got != nil {
			t.Errorf("1 s after a search the usage of the pod is %s, want none", bare(t, got))
		}
		time.Sleep(10 * time.Second)
		same(t, "pod", read(pod()), `{"usageCoreNanoSeconds":5000000000}`)
	})
}

// However long the runtime takes, the cgroup figures have the time at which they were read.
func TestTimeIsTheTimeOfTheReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reader(t, &statsRuntime{takes: 3 * time.Second}, layouts[0].tree())
		began := time.Now()
		got, err := r.Read(t.Context(), []*runtime.PodStatus{pod()})
		if err != nil || got.Pods[0].CPU.Time.Sub(began) != 3*time.Second {
			t.Errorf("CPU of %v, %v, want that of 3 s after %v", got.Pods[0].CPU.Time, err, began)
		}
	})
}

// A runtime that hangs hides no figure of the kernel, and delays the read only for a bounded time.
func TestRuntimeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reader(t, &statsRuntime{takes: time.Hour}, layouts[0].tree())
		began := time.Now()
		got, err := r.Read(t.Context(), []*runtime.PodStatus{pod()})
		if took := time.Since(began); err != nil || got.Node.CPU == nil || got.Pods[0].CPU == nil || took > 5*time.Second {
			t.Errorf("%s, %v after %v, want all that the kernel reports after 5 s", bare(t, got), err, took)
		}
	})
}

func value(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

func cpu(n uint64) *runtimeapi.CpuUsage {
	return &runtimeapi.CpuUsage{Timestamp: 5e18, UsageCoreNanoSeconds: value(n), UsageNanoCores: value(9)}
}

func memory(n uint64) *runtimeapi.MemoryUsage {
	return &runtimeapi.MemoryUsage{Timestamp: 5e18, WorkingSetBytes: value(n), UsageBytes: value(n + 1), RssBytes: value(1), AvailableBytes: value(2), PageFaults: value(3), MajorPageFaults: value(4)}
}

func ofContainer() *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: "cont"}, Cpu: cpu(70), Memory: memory(700),
		WritableLayer: &runtimeapi.FilesystemUsage{Timestamp: 5e18, UsedBytes: value(5), InodesUsed: value(6)},
	}
}

func ofPod() *runtimeapi.PodSandboxStats {
	eth0 := &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: value(1), RxErrors: value(2), TxBytes: value(3), TxErrors: value(4)}
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{Id: "sand"},
		Linux: &runtimeapi.LinuxPodSandboxStats{
			Cpu: cpu(80), Memory: memory(800), Containers: []*runtimeapi.ContainerStats{ofContainer()},
			Network: &runtimeapi.NetworkUsage{Timestamp: 5e18, DefaultInterface: eth0, Interfaces: []*runtimeapi.NetworkInterfaceUsage{eth0, {Name: "eth1"}}},
		},
	}
}

const (
	toldCPU    = `{"usageCoreNanoSeconds":80,"usageNanoCores":9}`
	toldMemory = `{"availableBytes":2,"majorPageFaults":4,"pageFaults":3,"rssBytes":1,"usageBytes":801,"workingSetBytes":800}`
)

func TestRuntimeIsAskedFirst(t *testing.T) {
	tree := layouts[0].tree()
	rt := &statsRuntime{pods: []*runtimeapi.PodSandboxStats{ofPod()}, images: &runtimeapi.ImageFsInfoResponse{
		ImageFilesystems: []*runtimeapi.FilesystemUsage{{Timestamp: 1, UsedBytes: value(11), InodesUsed: value(12)}},
	}}
	got, err := reader(t, rt, tree).Read(t.Context(), []*runtime.PodStatus{pod()})
	if err != nil {
		t.Fatal(err)
	}
	p := got.Pods[0]
	same(t, "CPU", p.CPU, toldCPU)
	same(t, "memory", p.Memory, toldMemory)
	same(t, "network", p.Network, `{"interfaces":[{"name":"eth0","rxBytes":1,"rxErrors":2,"txBytes":3,"txErrors":4},{"name":"eth1"}],"name":"eth0","rxBytes":1,"rxErrors":2,"txBytes":3,"txErrors":4}`)
	same(t, "container", p.Containers[0].CPU, `{"usageCoreNanoSeconds":70,"usageNanoCores":9}`)
	same(t, "layer", p.Containers[0].RootFS, `{"inodesUsed":6,"usedBytes":5}`)
	same(t, "images", got.Node.ImageFS, `{"inodesUsed":12,"usedBytes":11}`)
	same(t, "layers", got.Node.ContainerFS, `{"inodesUsed":12,"usedBytes":11}`)
	if p.CPU.Time.UnixNano() != 5e18 {
		t.Errorf("read at %v, want 5e18", p.CPU.Time)
	}

	// Containers alone: the pod is read from its cgroup, the network from its process.
	rt = &statsRuntime{containers: []*runtimeapi.ContainerStats{ofContainer()}}
	got, err = reader(t, rt, tree).Read(t.Context(), []*runtime.PodStatus{pod()})
	if err != nil {
		t.Fatal(err)
	}
	p = got.Pods[0]
	same(t, "container", p.Containers[0].CPU, `{"usageCoreNanoSeconds":70,"usageNanoCores":9}`)
	if *p.CPU.UsageCoreNanoSeconds != 5e9 || *p.Memory.WorkingSetBytes != 2000 || *p.Network.RxBytes != 600 {
		t.Errorf("%s, want 5e9 and 2000 and 600", bare(t, p))
	}

	// A pod on the node's network has none.
	host := pod()
	host.Sandboxes[0].NetworkMode = runtime.NamespaceNode
	for _, rt := range []*statsRuntime{{}, {pods: []*runtimeapi.PodSandboxStats{ofPod()}}} {
		got, err = reader(t, rt, tree).Read(t.Context(), []*runtime.PodStatus{host})
		if err != nil || got.Pods[0].Network != nil || got.Pods[0].CPU == nil {
			t.Errorf("%s, %v", bare(t, got.Pods), err)
		}
	}
}

func TestMissingStatsOfTheRuntimeAreReadFromTheKernel(t *testing.T) {
	broken := &statsRuntime{err: status.Error(codes.Unknown, "broken disk")}
	got, err := reader(t, broken, layouts[0].tree()).ReadCPUAndMemory(t.Context(), []*runtime.PodStatus{pod()})
	if err != nil || *got.Pods[0].CPU.UsageCoreNanoSeconds != 5e9 {
		t.Errorf("all was there: %s, %v", bare(t, got.Pods), err)
	}
	got, err = reader(t, broken, proc).ReadCPUAndMemory(t.Context(), []*runtime.PodStatus{pod()})
	if err == nil || strings.Count(err.Error(), "broken disk") != 2 || !strings.Contains(err.Error(), "ListPodSandboxStats") || got.Node.CPU == nil || len(got.Pods) != 1 {
		t.Errorf("nothing was there: %s, %v", bare(t, got), err)
	}
	half := ofPod()
	half.Linux.Memory, half.Linux.Containers[0].Cpu.UsageCoreNanoSeconds = nil, nil
	got, err = reader(t, &statsRuntime{pods: []*runtimeapi.PodSandboxStats{half}}, layouts[0].tree()).Read(t.Context(), []*runtime.PodStatus{pod()})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "told", got.Pods[0].CPU, toldCPU)
	if p := got.Pods[0]; *p.Memory.WorkingSetBytes != 2000 || *p.Containers[0].CPU.UsageCoreNanoSeconds != 4e9 || *p.Containers[0].Memory.WorkingSetBytes != 700 {
		t.Errorf("%s, want 2000 and 4e9 and 700", bare(t, p))
	}
}

// A runtime that reports pods without their containers: those are read from its other list.
func TestPodsWithoutTheirContainers(t *testing.T) {
	bare := ofPod()
	bare.Linux.Containers = nil
	rt := &statsRuntime{pods: []*runtimeapi.PodSandboxStats{bare}, containers: []*runtimeapi.ContainerStats{ofContainer()}}
	got, err := reader(t, rt, layouts[0].tree()).Read(t.Context(), []*runtime.PodStatus{nil, pod()})
	if err != nil {
		t.Fatal(err)
	}
	p := got.Pods[0]
	same(t, "pod", p.CPU, toldCPU)
	same(t, "container", p.Containers[0].CPU, `{"usageCoreNanoSeconds":70,"usageNanoCores":9}`)
	same(t, "layer", p.Containers[0].RootFS, `{"inodesUsed":6,"usedBytes":5}`)
}

const huge = "18446744073709551615" // the largest number of 64 bits

// One file at a time is damaged: the error names it, and all other figures are unchanged.
func TestDamage(t *testing.T) {
	for _, l := range layouts {
		whole, err := reader(t, &statsRuntime{}, l.tree()).Read(t.Context(), []*runtime.PodStatus{pod()})
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range l.tree() {
			if !strings.HasPrefix(name, "proc/") && !strings.Contains(name, "pod") || strings.Contains(name, "sand") || strings.Contains(name, "conmon") || strings.HasSuffix(name, ".procs") {
				continue
			}
			for what, text := range map[string]string{
				"cut":      string(f.Data[:len(f.Data)-2]),
				"empty":    "",
				"negative": strings.ReplaceAll(string(f.Data), " ", " -"),
				"huge":     strings.NewReplacer("1", huge, "2", huge, "3", huge, "4", huge, "5", huge).Replace(string(f.Data)),
				"other":    "\x00\xffnonsense\n",
			} {
				limit := strings.Contains(name, "limit") || strings.HasSuffix(name, "memory.max")
				if what == "negative" && (!strings.Contains(string(f.Data), " ") || name == "proc/loadavg") || limit && what == "huge" || string(f.Data) == "max\n" {
					continue // this is not damaged
				}
				tree := l.tree()
				tree[name] = file(text)
				got, err := reader(t, &statsRuntime{}, tree).Read(t.Context(), []*runtime.PodStatus{pod()})
				if err == nil || !strings.Contains(err.Error(), name) || len(err.Error()) > 1000 {
					t.Errorf("%s: %s %s: %v, want an error and %v in it and at most 1000", l.name, what, name, err, name)
				}
				if same := agree(whole, got); same < 13 { // of 18; five come from memory.stat
					t.Errorf("%s: %s %s: only %d figures are as they were", l.name, what, name, same)
				}
			}
		}
	}
}

// agree counts the figures that are in both and equal.
func agree(a, b stats.Stats) (n int) {
	memories := func(s stats.Stats) []*stats.Memory {
		list := []*stats.Memory{s.Node.Memory}
		for _, p := range s.Pods {
			list = append(list, p.Memory, p.Containers[0].Memory)
		}
		return list
	}
	cpus := func(s stats.Stats) []*stats.CPU {
		list := []*stats.CPU{s.Node.CPU}
		for _, p := range s.Pods {
			list = append(list, p.CPU, p.Containers[0].CPU)
		}
		return list
	}
	count := func(x, y any) {
		vx, vy := reflect.ValueOf(x), reflect.ValueOf(y)
		if vx.IsNil() || vy.IsNil() {
			return
		}
		for i := range vx.Elem().NumField() {
			fx, fy := vx.Elem().Field(i), vy.Elem().Field(i)
			if fx.Kind() == reflect.Pointer && !fx.IsNil() && !fy.IsNil() && fx.Elem().Uint() == fy.Elem().Uint() {
				n++
			}
		}
	}
	for i, m := range memories(a) {
		count(m, memories(b)[i])
		count(cpus(a)[i], cpus(b)[i])
	}
	return n
}

func TestRequiredFields(t *testing.T) {
	for name := range proc {
		if strings.HasPrefix(name, "proc/sys/kernel/") {
			continue // one of the two limits is enough
		}
		tree := maps.Clone(proc)
		delete(tree, name)
		if _, err := reader(t, &statsRuntime{}, tree).Read(t.Context(), nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// A container may end between two readings, or between the runtime's answer and the
// reading of its files.
func TestGoneIsNoError(t *testing.T) {
	l := layouts[0]
	tree := l.tree()
	r := reader(t, &statsRuntime{}, tree)
	if _, err := r.Read(t.Context(), []*runtime.PodStatus{pod()}); err != nil {
		t.Fatal(err)
	}
	for name := range tree {
		if strings.Contains(name, "pod") {
			delete(tree, name)
		}
	}
	got, err := r.Read(t.Context(), []*runtime.PodStatus{pod()})
	if err != nil || len(got.Pods) != 1 || got.Pods[0].CPU != nil || got.Pods[0].Containers[0].Memory != nil {
		t.Errorf("%s, %v, want one pod, without CPU and without memory of its container", bare(t, got.Pods), err)
	}
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := layouts[0]
		tree := l.tree()
		r := reader(t, &statsRuntime{}, tree)
		spent := 4
		rate := func(wait time.Duration, seconds int) *uint64 {
			time.Sleep(wait)
			spent += seconds
			l.add(tree, l.container, spent, 2000, 0, 0)
			got, err := r.Read(t.Context(), []*runtime.PodStatus{pod()})
			if err != nil {
				t.Fatal(err)
			}
			return got.Pods[0].Containers[0].CPU.UsageNanoCores
		}
		for i, step := range []struct {
			wait    time.Duration
			seconds int
			want    int64 // -1 is none
		}{
			{0, 0, -1},
			{100 * time.Millisecond, 1, -1}, // too short an interval
			{3900 * time.Millisecond, 1, 500_000_000},
			{8 * time.Second, 10, 1_000_000_000}, // since the first
			{100 * time.Millisecond, 0, 1_000_000_000},
			{3900 * time.Millisecond, 8, 2_000_000_000}, // since the second
			{time.Hour, 1, -1},
			{10 * time.Second, 5, 500_000_000},
			{10 * time.Second, -20, -1}, // another process
		} {
			got := rate(step.wait, step.seconds)
			if step.want < 0 && got != nil || step.want >= 0 && (got == nil || *got != uint64(step.want)) {
				t.Errorf("step %d: %v, want %d", i, bare(t, got), step.want)
			}
		}
	})
}

func TestNew(t *testing.T) {
	for want, c := range map[string]stats.Config{
		"Config.Runtime is missing": {},
		`Config.Dir "var" is not`:   {Runtime: &statsRuntime{}, Dir: "var"},
	} {
		if _, err := stats.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzRead puts any text into any file: the result is a figure or an error, and never a working set that exceeds the
// usage.
func FuzzRead(f *testing.F) {
	names := slices.Sorted(maps.Keys(layouts[0].tree()))
	for i, name := range names {
		f.Add(byte(i), string(layouts[0].tree()[name].Data))
	}
	f.Fuzz(func(t *testing.T, i byte, text string) {
		tree := layouts[0].tree()
		tree[names[int(i)%len(names)]] = file(text)
		got, _ := reader(t, &statsRuntime{}, tree).Read(t.Context(), []*runtime.PodStatus{pod()})
		for _, m := range []*stats.Memory{got.Node.Memory, got.Pods[0].Memory} {
			if m != nil && m.WorkingSetBytes != nil && *m.WorkingSetBytes > *m.UsageBytes {
				t.Errorf("%s, want a working set of at most the usage", bare(t, m))
			}
		}
	})
}
