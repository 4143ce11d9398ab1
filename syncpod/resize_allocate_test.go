package syncpod_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/resize"
)

// allocating makes agents that decide on resizes, on a node of four CPUs.
func allocating(t *testing.T, dir string) func(*syncpod.Config) {
	allocator, err := resize.New(resize.Config{State: dir, Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}})
	must(t, err)
	return func(c *syncpod.Config) { c.Extensions.Allocations = allocator }
}

// wantCondition checks a condition of the last status, none for an empty reason of "absent".
func (n *node) wantCondition(kind v1.PodConditionType, reason, message string) {
	n.Helper()
	for _, c := range n.report.last().Conditions {
		if c.Type != kind {
			continue
		}
		if reason == "absent" || c.Status != v1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, message) {
			n.Errorf("condition %s %s %q %q, want %q %q", kind, c.Status, c.Reason, c.Message, reason, message)
		}
		return
	}
	if reason != "absent" {
		n.Errorf("there is no condition %s", kind)
	}
}

// C10: a resize that does not fit is reported and not carried out. The pod keeps its
// allocation, even when a container restarts or another agent starts.
func TestC10_ResizeThatDoesNotFit(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(allocating(t, dir))
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		n.wantCondition(v1.PodResizePending, "absent", "")
		tooMuch := testPod(limited("5", "1Gi"))
		n.settle(tooMuch, time.Minute)
		n.wantCondition(v1.PodResizePending, v1.PodReasonInfeasible, "cpu, requested: 5000, capacity: 4000")
		n.wantCondition(v1.PodResizeInProgress, "absent", "")
		if k := n.report.container("app"); k.AllocatedResources.Cpu().String() != "1" || k.Resources.Limits.Cpu().String() != "1" {
			t.Errorf("allocated %v, in force %v", k.AllocatedResources, k.Resources)
		}
		if updates := n.Journal().Count(critest.UpdateContainerResources); updates != 0 {
			t.Errorf("%d updates, want 0", updates)
		}
		n.exit("app", 1)
		n.restart(allocating(t, dir))
		n.settle(tooMuch, time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
		if r := n.inForce(); r.GetCpuQuota() != 100000 {
			t.Errorf("quota %d, want 100000", r.GetCpuQuota())
		}
		n.wantCondition(v1.PodResizePending, v1.PodReasonInfeasible, "")
		n.settle(testPod(limited("4", "1Gi")), time.Minute)
		if r := n.inForce(); r.GetCpuQuota() != 400000 {
			t.Errorf("quota %d, want 400000", r.GetCpuQuota())
		}
		n.wantCondition(v1.PodResizePending, "absent", "")
	})
}

// C10: an accepted resize is in progress until it is done, and its condition has the
// error.
func TestC10_ResizeInProgress(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		n.wantCondition(v1.PodResizeInProgress, "absent", "")
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources}, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), testPod(limited("2", "1Gi")), nil); err == nil {
			t.Fatal("no error")
		}
		n.wantCondition(v1.PodResizeInProgress, v1.PodReasonError, "container app: ")
		n.settle(testPod(limited("2", "1Gi")), time.Minute)
		n.wantCondition(v1.PodResizeInProgress, "absent", "")
		if n.events.count("ResizeCompleted") != 1 {
			t.Errorf("events %q, want 1", n.events.all)
		}
	})
}

// C10: a deferred or started resize is reported once, and again for another reason.
func TestC10_EventsOfAResize(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(allocating(t, dir))
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		n.drive(testPod(limited("5", "1Gi")), time.Minute)
		n.drive(testPod(limited("6", "1Gi")), time.Minute)
		n.drive(testPod(limited("2", "1Gi")), time.Minute)
		n.drive(testPod(limited("5", "1Gi")), time.Minute)
		for event, want := range map[string]int{
			"ResizeInfeasible":                    3,
			"requested: 6000":                     1,
			"ResizeStarted  Pod resize started":   1,
			"ResizeCompleted spec.containers{app": 1,
		} {
			if got := n.events.count(event); got != want {
				t.Errorf("%d events %q, want %d: %q", got, event, want, n.events.all)
			}
		}
	})
}

// C10: containers that give memory back are resized first; while one does not, none takes
// more, so that together they never have more than before and after.
func TestC10_RoomIsFreedFirst(t *testing.T) {
	two := func(a, b string) *v1.Pod {
		return testPod(limited("1", a), func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, ctr("beside"))
			limited("1", b)(&v1.Pod{Spec: v1.PodSpec{Containers: p.Spec.Containers[1:]}})
		})
	}
	bubble(t, func(t *testing.T, n *node) {
		n.settle(two("1Gi", "2Gi"), time.Minute)
		updates := func() (limits []int64) {
			for _, call := range n.Journal().Of(critest.UpdateContainerResources) {
				limits = append(limits, call.Request().(*runtimeapi.UpdateContainerResourcesRequest).GetLinux().GetMemoryLimitInBytes())
			}
			return limits
		}
		n.settle(two("2Gi", "1Gi"), time.Minute)
		if got := updates(); !slices.Equal(got, []int64{1 << 30, 2 << 30}) {
			t.Errorf("memory limits in the order %v", got)
		}
		if _, err := n.SyncPod(t.Context(), two("3Gi", "1000Ki"), nil); !errors.Is(err, cgroup.ErrMemoryInUse) {
			t.Errorf("error %v", err)
		}
		n.wantCondition(v1.PodResizeInProgress, v1.PodReasonError, "container app: waits for the memory of container beside")
		n.drive(two("3Gi", "1000Ki"), time.Hour)
		if got := updates(); len(got) != 2 {
			t.Errorf("memory limits %v", got)
		}
		n.drive(two("3Gi", "1Gi"), time.Minute)
		if got := updates(); !slices.Equal(got[2:], []int64{3 << 30}) {
			t.Errorf("memory limits %v", got)
		}
		n.wantCondition(v1.PodResizeInProgress, "absent", "")
	})
}

// C10: memory is not taken from a container that uses it.
func TestC10_MemoryInUseIsNotTaken(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		if _, err := n.SyncPod(t.Context(), testPod(limited("1", "1000Ki")), nil); !errors.Is(err, syncpod.ErrResizeContainer) {
			t.Errorf("error %v", err)
		}
		n.wantCondition(v1.PodResizeInProgress, v1.PodReasonError, "container app: the memory limit is below what is in use: attempting to set memory limit (1024000) below current usage (1048576)")
		if r := n.inForce(); r.GetMemoryLimitInBytes() != 1<<30 {
			t.Errorf("memory %d, want %v", r.GetMemoryLimitInBytes(), 1<<30)
		}
		n.settle(testPod(limited("1", "2Mi")), time.Minute)
		if r := n.inForce(); r.GetMemoryLimitInBytes() != 2<<20 {
			t.Errorf("memory %d, want %v", r.GetMemoryLimitInBytes(), 2<<20)
		}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStats}, Err: errBroken})
		n.settle(testPod(limited("1", "1000Ki")), time.Minute)
		if r := n.inForce(); r.GetMemoryLimitInBytes() != 1000<<10 {
			t.Errorf("memory limit %d, although the runtime does not report the usage", r.GetMemoryLimitInBytes())
		}
	})
}

// The Syncer starts no container of a pod whose allocation cannot be read.
func TestAllocationThatFails(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		failing := allocating(t, dir+"/a\x00b")
		n.restart(failing)
		if _, err := n.SyncPod(t.Context(), testPod(), nil); err == nil || !strings.Contains(err.Error(), "resources of pod") {
			t.Errorf("error %v, want an error and %q in it", err, "resources of pod")
		}
		if n.Journal().Count(critest.RunPodSandbox) != 0 {
			t.Error("a sandbox was made")
		}
		n.restart(allocating(t, dir))
		n.settle(testPod(limited("1", "")), time.Minute)
		n.end(testPod(limited("1", "")), nil)
		must(t, n.SyncTerminatedPod(t.Context(), testPod(), nil))
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("of a pod that has stopped %v is left, error %v", left, err)
		}
	})
}

// C10: pod-level resources are resized like those of containers, and apply to containers
// without their own limits (KEP-5419).
func TestC10_ResizeOfThePodAsAWhole(t *testing.T) {
	dir := t.TempDir()
	whole := func(cpu string) *v1.Pod {
		return testPod(limited("", ""), func(p *v1.Pod) {
			list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi")}
			p.Spec.Resources = &v1.ResourceRequirements{Limits: list, Requests: list}
		})
	}
	bubble(t, func(t *testing.T, n *node) {
		n.restart(allocating(t, dir))
		n.settle(whole("1"), time.Minute)
		if r := n.inForce(); r.GetCpuQuota() != 100000 || r.GetMemoryLimitInBytes() != 1<<30 {
			t.Errorf("made with %v", r)
		}
		n.settle(whole("2"), time.Minute)
		n.wantStates("app 0 running")
		if r := n.inForce(); r.GetCpuQuota() != 200000 || n.Journal().Count(critest.UpdateContainerResources) != 1 {
			t.Errorf("resized to %v, want CpuQuota 200000 and 1\n%v", r, n.Journal())
		}
		n.drive(whole("5"), time.Minute)
		n.wantCondition(v1.PodResizePending, v1.PodReasonInfeasible, "cpu, requested: 5000, capacity: 4000")
		if s := n.report.last(); s.AllocatedResources.Cpu().String() != "2" || s.Resources.Limits.Cpu().String() != "2" {
			t.Errorf("allocated %v, resources %v", s.AllocatedResources, s.Resources)
		}
	})
}

// C10: an init container that runs is resized in place, and never stopped for that.
func TestC10_ResizeOfAnInitContainer(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		with := func(cpu, memory string) *v1.Pod {
			return testPod(inits(ctr("one", "sleep", "600")), func(p *v1.Pod) {
				limited(cpu, memory)(&v1.Pod{Spec: v1.PodSpec{Containers: p.Spec.InitContainers}})
				p.Spec.InitContainers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
			})
		}
		n.sync(with("1", "1Gi"))
		n.drive(with("2", "1Gi"), 10*time.Second)
		if got := n.Journal().Count(critest.UpdateContainerResources); got != 1 {
			t.Errorf("%d updates, want 1\n%v", got, n.Journal())
		}
		n.drive(with("2", "2Gi"), 10*time.Second)
		n.wantStates("one 0 running")
		if k := n.report.last().InitContainerStatuses[0]; k.Resources.Limits.Cpu().String() != "2" || k.Resources.Limits.Memory().String() != "1Gi" {
			t.Errorf("in force %v, want String %q and String %q", k.Resources, "2", "1Gi")
		}
	})
}
