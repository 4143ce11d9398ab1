package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/plancheck"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/cgroup/tree"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/source"
)

// resizer is an agent that decides on resizes and keeps cgroups, on a node that has two
// CPUs and 4 GiB for pods.
type resizer struct {
	*node
	push   *source.Push
	cgroup string
	end    context.CancelFunc
	ended  chan error

	mu       sync.Mutex
	statuses map[types.UID]v1.PodStatus
	wanted   map[types.UID]*v1.Pod
}

func (n *node) resizer() *resizer {
	n.Helper()
	r := &resizer{
		node: n, cgroup: fmt.Sprintf("podsync-resize-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(n.endpoint))),
		statuses: map[types.UID]v1.PodStatus{}, wanted: map[types.UID]*v1.Pod{},
	}
	n.Cleanup(func() { removeTree(n, r.cgroup) })
	r.start()
	n.Cleanup(r.stop)
	return r
}

// start starts the agent, or the next one with the same files.
func (r *resizer) start() {
	r.Helper()
	client := must.Get(cri.Dial(r.Context(), cri.Config{Endpoint: r.endpoint}))(r)
	cgroups := must.Get(tree.New(tree.Config{State: filepath.Join(r.root, "cgroups"), Root: r.cgroup}))(r)
	allocations := must.Get(resize.New(resize.Config{State: filepath.Join(r.root, "allocations"), Allocatable: list("2", "4Gi")}))(r)
	r.push = source.NewPush()
	config := nodeagent.Config{
		Client: client, Root: r.root, NodeName: nodeName, Sources: []source.Source{r.push}, NoEviction: true, NoImageGC: true,
		Sync: syncpod.Config{
			Sink: syncpod.StatusSinkFunc(r.keep), Node: syncpod.Node{LogsRoot: r.logs},
			Extensions: syncpod.Extensions{Cgroups: cgroups, Allocations: allocations},
		},
	}
	plancheck.Check(r, &config)
	agent := must.Get(nodeagent.New(config))(r)
	ctx, cancel := context.WithCancel(context.Background())
	r.end, r.ended = cancel, make(chan error, 1)
	go func() { r.ended <- errors.Join(agent.Run(ctx), client.Close()) }()
}

// detach ends the agent, and keeps its pods running.
func (r *resizer) detach() {
	r.end()
	if err := <-r.ended; err != nil && !errors.Is(err, context.Canceled) {
		r.Error(err)
	}
}

// stop ends the pods, and then the agent.
func (r *resizer) stop() {
	r.wanted = map[types.UID]*v1.Pod{}
	r.report()
	r.eventually(func() error {
		if left := r.all(); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
	r.detach()
}

func (r *resizer) keep(_ context.Context, pod *v1.Pod, s v1.PodStatus) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses[pod.UID] = s
	return nil
}

func (r *resizer) status(uid types.UID) v1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.statuses[uid]
	return *s.DeepCopy()
}

// set adds a pod or changes it, and drop removes it.
func (r *resizer) set(pod *v1.Pod) {
	r.Helper()
	if before := r.wanted[pod.UID]; before != nil {
		pod.Generation = before.Generation + 1
	}
	r.wanted[pod.UID] = pod
	r.report()
}

func (r *resizer) drop(uid types.UID) {
	r.Helper()
	delete(r.wanted, uid)
	r.report()
}

func (r *resizer) report() {
	r.Helper()
	var pods []*v1.Pod
	for _, p := range r.wanted {
		pods = append(pods, p.DeepCopy())
	}
	must.Do(r, r.push.Set(pods...))
}

func list(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// sized returns a container with these requests and limits.
func sized(name string, requests, limits v1.ResourceList) v1.Container {
	return v1.Container{
		Name: name, Image: "localhost/busybox:e2e", Command: []string{"sleep", "infinity"}, ImagePullPolicy: v1.PullNever,
		Resources: v1.ResourceRequirements{Requests: requests, Limits: limits},
	}
}

// sizedPod returns a pod of such containers.
func (r *resizer) sizedPod(name string, containers ...v1.Container) *v1.Pod {
	r.Helper()
	p := &v1.Pod{}
	p.Namespace, p.Name, p.UID, p.Generation = namespace, name, types.UID(fmt.Sprintf("%s-%d", name, os.Getpid())), 1
	p.Spec.TerminationGracePeriodSeconds, p.Spec.Containers = new(int64(1)), containers
	return podspec.Default(p)
}

// settled waits until a pod has its requested resources, according to its status, without a condition of a resize. It returns
// the containers' statuses by name.
func (r *resizer) settled(pod *v1.Pod) map[string]v1.ContainerStatus {
	r.Helper()
	by := map[string]v1.ContainerStatus{}
	r.eventually(func() error {
		s := r.status(pod.UID)
		for _, k := range s.ContainerStatuses {
			by[k.Name] = k
		}
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			if k := by[c.Name]; k.State.Running == nil || !same(k.AllocatedResources, c.Resources.Requests) || !same(k.Resources.Requests, c.Resources.Requests) || !same(k.Resources.Limits, c.Resources.Limits) {
				return fmt.Errorf("%s: allocated %v, resources %v", c.Name, k.AllocatedResources, k.Resources)
			}
		}
		for _, c := range s.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return fmt.Errorf("condition %v", c)
			}
		}
		if s.ObservedGeneration != pod.Generation {
			return fmt.Errorf("observedGeneration %d, want %d", s.ObservedGeneration, pod.Generation)
		}
		return nil
	})
	return by
}

func same(a, b v1.ResourceList) bool {
	return a.Cpu().Cmp(*b.Cpu()) == 0 && a.Memory().Cmp(*b.Memory()) == 0 && len(a) == len(b)
}

// waits waits for a condition of a resize.
func (r *resizer) waits(pod *v1.Pod, kind v1.PodConditionType, reason, message string) {
	r.Helper()
	r.eventually(func() error {
		conditions := r.status(pod.UID).Conditions
		for _, c := range conditions {
			if c.Type == kind && c.Reason == reason && strings.Contains(c.Message, message) && c.ObservedGeneration == pod.Generation {
				return nil
			}
		}
		return fmt.Errorf("no condition %s %s %q: %v", kind, reason, message, conditions)
	})
}

// inKernel returns the kernel's values of a cgroup: shares or weight, quota, and memory.
func (r *resizer) inKernel(cpu, memory string) [3]string {
	r.Helper()
	read := func(dir, file string) string {
		text := must.Get(os.ReadFile(filepath.Join(dir, file)))(r)
		return strings.TrimSpace(string(text))
	}
	if cpu == memory { // version 2
		return [3]string{read(cpu, "cpu.weight"), read(cpu, "cpu.max"), read(memory, "memory.max")}
	}
	return [3]string{read(cpu, "cpu.shares"), read(cpu, "cpu.cfs_quota_us"), read(memory, "memory.limit_in_bytes")}
}

// dir returns the directory of a controller's cgroup.
func dir(controller, at string) string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return filepath.Join("/sys/fs/cgroup", at)
	}
	return filepath.Join("/sys/fs/cgroup", controller, at)
}

// wantKernel compares the kernel's values of a pod's cgroup, or of a container's in it, with amounts: thousandths of a CPU
// that are requested, and limits.
func (r *resizer) wantKernel(pod *v1.Pod, container v1.ContainerStatus, request, limit, memory int64) {
	r.Helper()
	at := filepath.Join(r.cgroup, "burstable", "pod"+string(pod.UID))
	if container.ContainerID != "" {
		_, id, _ := strings.Cut(container.ContainerID, "://")
		at = filepath.Join(at, id)
		if in := r.cgroupOf(id); !strings.Contains(in, "/"+at) {
			r.Errorf("container %s is in\n%swant it in %s", container.Name, in, at)
		}
	}
	got := r.inKernel(dir("cpu", at), dir("memory", at))
	want := [3]string{fmt.Sprint(request * 1024 / 1000), fmt.Sprint(limit * 100), fmt.Sprint(memory)}
	if dir("cpu", at) == dir("memory", at) {
		want[0], want[1] = got[0], fmt.Sprintf("%d 100000", limit*100) // the runtime has its own formula for weights
	}
	if got != want {
		r.Errorf("%s has %v in the kernel, want %v", at, got, want)
	}
}

const mib = 1 << 20

// TestResize: a resize of a running pod is decided, done by the kernel, and reported. Cgroups of other owners are not
// changed.
func TestResize(t *testing.T) {
	onNodes(t, func(n *node) {
		r := n.resizer()
		pod := func(a, b v1.Container) *v1.Pod { return r.sizedPod("resized", a, b) }
		restarts := func(c v1.Container) v1.Container {
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}, {ResourceName: v1.ResourceCPU, RestartPolicy: v1.NotRequired}}
			return c
		}
		p := pod(sized("a", list("100m", "32Mi"), list("200m", "64Mi")), restarts(sized("b", list("100m", "32Mi"), list("100m", "32Mi"))))
		r.set(p)
		first := r.settled(p)
		r.wantKernel(p, v1.ContainerStatus{}, 200, 300, 96*mib)
		r.wantKernel(p, first["a"], 100, 200, 64*mib)
		others := othersCgroup(n, filepath.Join(r.cgroup, "burstable", "podothers"))

		step := func(about string, a, b v1.Container) (by map[string]v1.ContainerStatus) {
			r.Helper()
			p = pod(a, restarts(b))
			r.set(p)
			by = r.settled(p)
			if by["a"].ContainerID != first["a"].ContainerID || by["a"].RestartCount != 0 {
				r.Errorf("%s: a has restarted", about)
			}
			r.wantKernel(p, v1.ContainerStatus{}, milli(p, v1.ResourceCPU, requests), milli(p, v1.ResourceCPU, limits), milli(p, v1.ResourceMemory, limits)/1000)
			for i := range p.Spec.Containers {
				c := p.Spec.Containers[i].Resources
				r.wantKernel(p, by[p.Spec.Containers[i].Name], c.Requests.Cpu().MilliValue(), c.Limits.Cpu().MilliValue(), c.Limits.Memory().Value())
			}
			return by
		}
		step("up", sized("a", list("300m", "64Mi"), list("500m", "128Mi")), sized("b", list("200m", "32Mi"), list("200m", "32Mi")))
		step("down", sized("a", list("50m", "16Mi"), list("100m", "32Mi")), sized("b", list("50m", "32Mi"), list("50m", "32Mi")))
		step("memory up, CPU down", sized("a", list("20m", "16Mi"), list("60m", "100Mi")), sized("b", list("50m", "32Mi"), list("50m", "32Mi")))
		step("from one to the other", sized("a", list("300m", "16Mi"), list("400m", "32Mi")), sized("b", list("20m", "32Mi"), list("30m", "32Mi")))
		by := step("a restart", sized("a", list("100m", "32Mi"), list("200m", "64Mi")), sized("b", list("100m", "48Mi"), list("100m", "48Mi")))
		if by["b"].RestartCount != 1 || by["b"].ContainerID == first["b"].ContainerID {
			r.Errorf("b has restarted %d times", by["b"].RestartCount)
		}
		small := by

		p = pod(sized("a", list("100m", "32Mi"), list("200m", "64Mi")), restarts(sized("b", list("3", "48Mi"), list("3", "48Mi"))))
		r.set(p)
		r.waits(p, v1.PodResizePending, v1.PodReasonInfeasible, "Node didn't have enough capacity: cpu, requested: 3100, capacity: 2000")
		r.wantKernel(p, small["b"], 100, 100, 48*mib)

		p = pod(sized("a", list("100m", "10Ki"), list("200m", "10Ki")), restarts(sized("b", list("100m", "48Mi"), list("100m", "48Mi"))))
		r.set(p)
		r.waits(p, v1.PodResizeInProgress, v1.PodReasonError, "memory limit (10240) below current usage")
		r.wantKernel(p, small["a"], 100, 200, 64*mib)
		r.wantKernel(p, v1.ContainerStatus{}, 200, 300, 112*mib)
		step("back", sized("a", list("100m", "32Mi"), list("200m", "64Mi")), sized("b", list("100m", "48Mi"), list("100m", "48Mi")))

		r.deferred()
		r.whole()
		r.drop(p.UID)
		r.eventually(func() error { return absent(dir("cpu", filepath.Join(r.cgroup, "burstable", "pod"+string(p.UID)))) })
		others()
	})
}

func requests(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }

func limits(r *v1.ResourceRequirements) v1.ResourceList { return r.Limits }

// milli adds up the containers of a pod, in thousandths.
func milli(p *v1.Pod, name v1.ResourceName, of func(*v1.ResourceRequirements) v1.ResourceList) (sum int64) {
	for i := range p.Spec.Containers {
		q := of(&p.Spec.Containers[i].Resources)[name]
		sum += q.MilliValue()
	}
	return sum
}

func absent(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is still there: %v", path, err)
	}
	return nil
}

// deferred makes a pod wait for the room that another pod uses, over an agent restart, until that pod is
// removed.
func (r *resizer) deferred() {
	r.Helper()
	full := r.sizedPod("full", sized("a", list("1200m", "32Mi"), list("1200m", "64Mi")))
	r.set(full)
	r.settled(full)
	with := func(cpu string) *v1.Pod {
		return r.sizedPod("waiting", sized("a", list(cpu, "32Mi"), list(cpu, "64Mi")))
	}
	p := with("100m")
	r.set(p)
	before := r.settled(p)
	p = with("900m")
	r.set(p)
	message := "Node didn't have enough resource: cpu, requested: 900, used: 1400, capacity: 2000"
	r.waits(p, v1.PodResizePending, v1.PodReasonDeferred, message)
	r.wantKernel(p, before["a"], 100, 100, 64*mib)
	r.detach()
	r.statuses = map[types.UID]v1.PodStatus{}
	r.start()
	r.report()
	r.waits(p, v1.PodResizePending, v1.PodReasonDeferred, message)
	r.wantKernel(p, before["a"], 100, 100, 64*mib)
	r.drop(full.UID)
	after := r.settled(p)
	r.wantKernel(p, after["a"], 900, 900, 64*mib)
	r.wantKernel(p, v1.ContainerStatus{}, 900, 900, 64*mib)
	if after["a"].ContainerID != before["a"].ContainerID {
		r.Error("the container has restarted")
	}
	r.drop(p.UID)
}

// whole resizes a pod with pod-level resources: its cgroup has them, and so does the container that has no limits of its
// own.
func (r *resizer) whole() {
	r.Helper()
	with := func(cpu, memory string) *v1.Pod {
		p := r.sizedPod("whole", sized("a", nil, nil), sized("b", list("50m", "16Mi"), list("100m", "32Mi")))
		p.Spec.Resources = &v1.ResourceRequirements{Requests: list("100m", "32Mi"), Limits: list(cpu, memory)}
		return podspec.Default(p)
	}
	var first string
	for _, size := range [][2]string{{"200m", "64Mi"}, {"400m", "128Mi"}, {"150m", "48Mi"}} {
		p := with(size[0], size[1])
		r.set(p)
		by := r.settled(p)
		first = cmp.Or(first, by["a"].ContainerID)
		limits := p.Spec.Resources.Limits
		r.eventually(func() error {
			if got := r.status(p.UID).Resources; got == nil || !same(got.Limits, limits) {
				return fmt.Errorf("resources of the pod %v", got)
			}
			return nil
		})
		r.wantKernel(p, v1.ContainerStatus{}, 100, limits.Cpu().MilliValue(), limits.Memory().Value())
		r.wantKernel(p, by["b"], 50, 100, 32*mib)
		if got := r.inKernel(dirOf(r, p, by["a"])); got[2] != fmt.Sprint(limits.Memory().Value()) || by["a"].ContainerID != first {
			r.Errorf("a has %v in the kernel, want memory %v", got, limits.Memory())
		}
	}
	r.drop(with("1", "1Gi").UID)
}

// dirOf returns the directories of a container's cgroup for CPU and memory.
func dirOf(r *resizer, p *v1.Pod, k v1.ContainerStatus) (cpu, memory string) {
	_, id, _ := strings.Cut(k.ContainerID, "://")
	at := filepath.Join(r.cgroup, "burstable", "pod"+string(p.UID), id)
	return dir("cpu", at), dir("memory", at)
}

// othersCgroup creates a cgroup that does not belong to the agent, with a process in it, and returns a function that checks
// at the end that it is unchanged.
func othersCgroup(n *node, at string) (check func()) {
	n.Helper()
	path := dir("memory", at)
	must.Do(n, os.Mkdir(path, 0o755))
	sleep := exec.Command("sleep", "1000")
	must.Do(n, sleep.Start())
	must.Do(n, os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(fmt.Sprint(sleep.Process.Pid)), 0))
	n.Cleanup(func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
		time.Sleep(100 * time.Millisecond)
		if err := os.Remove(path); err != nil {
			n.Error(err)
		}
	})
	return func() {
		n.Helper()
		text, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(sleep.Process.Pid) {
			n.Errorf("in the cgroup of others there is %q, error %v", text, err)
		}
	}
}
