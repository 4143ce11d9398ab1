//go:build linux

package reports

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/resize"
)

// The Ready condition follows each change of a readiness gate, and its message describes the present one.
func TestReadinessGateChanges(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {readinessGates: [{conditionType: example.com/lb}], containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		ready := n.condition("a", v1.PodReady)
		n.want(ready.Reason, "ReadinessGatesNotReady", "reason")
		n.wantIn(ready.Message, "does not exist", "message")
		for _, state := range []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue, v1.ConditionFalse, v1.ConditionTrue} {
			pod = pod.DeepCopy()
			pod.Status = n.status("a")
			pod.Status.Conditions = slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c v1.PodCondition) bool { return c.Type == "example.com/lb" })
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: "example.com/lb", Status: state})
			n.update(pod)
			time.Sleep(2 * time.Second)
			ready = n.condition("a", v1.PodReady)
			n.want(ready.Status, state, "Ready")
			if state == v1.ConditionFalse {
				n.wantIn(ready.Message, `but False`, "message")
			}
			n.want(n.condition("a", v1.ContainersReady).Status, v1.ConditionTrue, "ContainersReady")
		}
	})
}

// An ephemeral container that cannot start is reported with its reason, and does not make the pod unready.
func TestEphemeralContainerThatWaits(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
		time.Sleep(time.Minute)
		pod = pod.DeepCopy()
		pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", Image: "registry.invalid/debug:1"}}}
		n.update(pod)
		time.Sleep(time.Minute)
		if w := n.of("a", "debug").State.Waiting; w == nil || !strings.HasPrefix(w.Reason, "ImagePullBackOff") && w.Reason != "ErrImagePull" {
			n.Errorf("the ephemeral container is %+v", n.of("a", "debug").State)
		}
		n.want(n.condition("a", v1.PodReady).Status, v1.ConditionTrue, "Ready")
	})
}

// A failure to create a container is the reason for which it waits, and is never reported as its end.
func TestContainerThatCannotBeCreated(t *testing.T) {
	for reason, fault := range map[string]faults.Fault{
		"CreateContainerError": {Match: faults.Match{Method: critest.CreateContainer}, Err: status.Error(codes.Unknown, "no space left on device")},
		"RunContainerError":    {Match: faults.Match{Method: critest.StartContainer}, Err: status.Error(codes.Unknown, "exec: no such file or directory")},
	} {
		t.Run(reason, func(t *testing.T) {
			on(t, critest.Config{}, nil, func(n *node) {
				fault.Times = faults.Always
				injected, err := n.Inject(fault)
				if err != nil {
					n.Fatal(err)
				}
				n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, containers: [{name: app, command: [server]}]}}`)
				time.Sleep(30 * time.Second)
				s := n.of("a", "app").State
				if s.Waiting == nil || s.Waiting.Reason != reason {
					n.Errorf("the container is %+v", s)
				}
				n.want(n.status("a").Phase, v1.PodPending, "phase")
				injected.Remove()
				time.Sleep(10 * time.Minute)
				n.want(n.status("a").Phase, v1.PodRunning, "phase afterwards")
			})
		})
	}
}

// startTime is when the agent has first seen the pod, and never changes, also over restarts and new sandboxes.
func TestStartTimeStays(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 30; exit 1"]}]}}`)
		time.Sleep(time.Minute)
		first := n.status("a").StartTime
		if err := n.Remove(n.runs("app")[0].SandboxID); err != nil {
			n.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		n.restart(time.Hour)
		time.Sleep(10 * time.Minute)
		for _, s := range n.past("a") {
			n.want(s.StartTime, first, "startTime")
		}
	})
}

// An OOM kill is the reason of the end, and of the last state after the restart.
func TestOOMKilledIsReported(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 10; stress --vm 1 --vm-bytes 250M"], resources: {limits: {memory: 100Mi}}}]}}`)
		time.Sleep(15 * time.Second)
		last := n.of("a", "app").LastTerminationState.Terminated
		if last == nil || last.Reason != "OOMKilled" || last.ExitCode != 137 {
			n.Errorf("the last state is %+v", last)
		}
	})
}

// lastState is that of the run before the present one, with its own times and container, however many there were.
func TestLastStateIsThatOfTheRunBefore(t *testing.T) {
	on(t, critest.Config{}, nil, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 70; exit 3"]}]}}`)
		time.Sleep(30 * time.Minute)
		seen := 0
		for _, s := range n.past("a") {
			c := s.ContainerStatuses[0]
			if c.State.Running != nil && c.RestartCount > 0 {
				seen++
				last := c.LastTerminationState.Terminated
				if last == nil || last.ContainerID == c.ContainerID || last.ExitCode != 3 || last.FinishedAt.After(c.State.Running.StartedAt.Time) || last.FinishedAt.Sub(last.StartedAt.Time) != 70*time.Second {
					n.Errorf("restart %d runs since %v, and the last state is %+v", c.RestartCount, c.State.Running.StartedAt, last)
				}
			}
		}
		n.want(seen > 3, true, "restarts")
	})
}

// The requests of a pod without limits can be changed, and the change is reported once and for good.
func TestResizeIsReportedOnce(t *testing.T) {
	for name, resources := range map[string]string{
		"without limits": `{requests: {cpu: 200m, memory: 200Mi}}`,
		"guaranteed":     `{requests: {cpu: 200m, memory: 200Mi}, limits: {cpu: 200m, memory: 200Mi}}`,
		"burstable":      `{requests: {cpu: 200m, memory: 100Mi}, limits: {cpu: 400m, memory: 200Mi}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			on(t, critest.Config{}, allocator(t, dir, "4"), func(n *node) {
				pod := n.apply(`{metadata: {name: a, generation: 1}, spec: {containers: [{name: app, command: [server], resources: ` + resources + `}]}}`)
				time.Sleep(time.Minute)
				pod = pod.DeepCopy()
				pod.Generation = 2
				r := &pod.Spec.Containers[0].Resources
				for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
					for k, v := range list {
						v.Set(v.Value())
						list[k] = *resource.NewMilliQuantity(v.MilliValue()/2, v.Format)
					}
				}
				r.Requests["cpu"] = resource.MustParse("100m")
				if r.Limits != nil {
					r.Limits["cpu"] = resource.MustParse(map[string]string{"guaranteed": "100m", "burstable": "300m"}[name])
				}
				n.update(pod)
				time.Sleep(10 * time.Minute)
				n.want(len(n.runs("app")), 1, "runs")
				done := false
				for _, s := range n.past("a") {
					c := s.ContainerStatuses[0]
					now := c.Resources != nil && c.Resources.Requests.Cpu().String() == "100m" && condition(s, v1.PodResizeInProgress).Type == ""
					if done && !now {
						n.Errorf("after the resize was done, the status is %v with %+v", c.Resources, s.Conditions)
					}
					done = done || now
				}
				n.want(done, true, "the resize is done")
				n.want(n.status("a").ObservedGeneration, 2, "observedGeneration")
			})
		})
	}
}

// allocator gives the agent an allocator of so many CPUs.
func allocator(t *testing.T, dir, cpus string) func(*agent.Config) {
	return func(c *agent.Config) {
		a, err := resize.New(resize.Config{State: dir, Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus), v1.ResourceMemory: resource.MustParse("8Gi")}})
		if err != nil {
			t.Fatal(err)
		}
		c.Sync.Extensions.Allocations = a
	}
}

// A deferred resize is tried again when another pod gives up resources without ending.
func TestDeferredResizeAfterAnotherPodShrinks(t *testing.T) {
	on(t, critest.Config{}, allocator(t, t.TempDir(), "4"), func(n *node) {
		small := n.apply(`{metadata: {name: small}, spec: {containers: [{name: small, command: [server], resources: {requests: {cpu: "1"}}}]}}`)
		large := n.apply(`{metadata: {name: large}, spec: {containers: [{name: large, command: [server], resources: {requests: {cpu: "3"}}}]}}`)
		time.Sleep(time.Minute)
		small = small.DeepCopy()
		small.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
		n.update(small)
		time.Sleep(time.Minute)
		n.want(n.condition("small", v1.PodResizePending).Reason, "Deferred", "pending")
		large = large.DeepCopy()
		large.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2")
		n.update(large)
		time.Sleep(10 * time.Second)
		n.want(n.of("small", "small").Resources.Requests.Cpu(), "2", "resources in force")
		n.want(n.condition("small", v1.PodResizePending).Type, "", "pending")
	})
}

// A change of one resource of a pod as a whole keeps the others in its status.
func TestPodResourcesKeepTheirKeys(t *testing.T) {
	on(t, critest.Config{}, allocator(t, t.TempDir(), "4"), func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {cpu: 200m, memory: 200Mi}}, containers: [{name: app, command: [server], resources: {requests: {cpu: 10m, memory: 10Mi}, limits: {cpu: 20m, memory: 20Mi}}}]}}`)
		time.Sleep(time.Minute)
		for _, change := range []v1.ResourceList{{"cpu": resource.MustParse("300m")}, {"memory": resource.MustParse("300Mi")}} {
			pod = pod.DeepCopy()
			for k, v := range change {
				pod.Spec.Resources.Limits[k] = v
			}
			n.update(pod)
			time.Sleep(time.Minute)
			if r := n.status("a").Resources; r == nil || len(r.Limits) != 2 || len(r.Requests) != 2 {
				n.Errorf("after a change of %v the pod's resources are %v", change, r)
			}
		}
	})
}

// limits records the memory limit of each pod's cgroup.
type limits struct {
	mu  sync.Mutex
	now map[types.UID]string
}

func (l *limits) EnsureCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now[pod.UID] = pod.Spec.Containers[0].Resources.Limits.Memory().String()
	return "", nil
}

func (l *limits) of(pod types.UID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now[pod]
}

func (l *limits) RaiseCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	return l.EnsureCgroup(ctx, pod)
}

func (*limits) RemovePod(context.Context, types.UID) error { return nil }

func (*limits) PodsCgroup() string { return "" }

// A resize while no container runs raises the limit of the pod, too.
func TestResizeOfAPodThatIsOOMKilled(t *testing.T) {
	limits, allocate := &limits{now: map[types.UID]string{}}, allocator(t, t.TempDir(), "4")
	on(t, critest.Config{}, func(c *agent.Config) { allocate(c); c.Sync.Extensions.Cgroups = limits }, func(n *node) {
		pod := n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [sh, -c, "sleep 1; exit 137"], resources: {limits: {cpu: 1, memory: 100Mi}}}]}}`)
		time.Sleep(15 * time.Minute)
		for n.of("a", "app").State.Waiting == nil {
			time.Sleep(time.Second)
		}
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Resources.Limits["memory"] = resource.MustParse("200Mi")
		n.update(pod)
		time.Sleep(10 * time.Minute)
		n.want(limits.of("a"), "200Mi", "limit of the pod")
		n.want(created(n, "app").GetLinux().GetResources().GetMemoryLimitInBytes(), 200<<20, "limit of the container")
		n.want(n.condition("a", v1.PodResizeInProgress).Type, "", "resize in progress")
	})
}

// The address of the node follows the node in the status of running pods.
func TestAddressOfTheNodeChanges(t *testing.T) {
	ip := "192.0.2.1"
	on(t, critest.Config{}, func(c *agent.Config) { c.Sync.Node.HostIPs = func() []string { return []string{ip} } }, func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server]}]}}`)
		n.apply(`{metadata: {name: h}, spec: {hostNetwork: true, containers: [{name: h, command: [server]}]}}`)
		time.Sleep(time.Minute)
		ip = "192.0.2.2"
		time.Sleep(10 * time.Minute)
		n.want(n.status("a").HostIP, ip, "hostIP")
		n.want(n.status("h").HostIP, ip, "hostIP of a pod on the node's network")
	})
}
