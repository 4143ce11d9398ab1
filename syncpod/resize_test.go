package syncpod_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// limited gives app limits, none where a value is empty.
func limited(cpu, memory string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		limits := v1.ResourceList{}
		for name, value := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
			if value != "" {
				limits[name] = resource.MustParse(value)
			}
		}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: limits, Requests: limits}
	}
}

// inForce are the resources of the running app.
func (n *node) inForce() *runtimeapi.LinuxContainerResources {
	n.Helper()
	resp, err := n.Client.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: n.current("app").ID.ID})
	n.Must(err)
	return resp.GetStatus().GetResources().GetLinux()
}

// C10: a pod handed in with other resources gets them in place, once.
func TestC10_ResizeInPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		to     func(*v1.Pod)
		quota  int64
		memory int64
	}{
		"more":            {limited("2", "2Gi"), 200000, 2 << 30},
		"less":            {limited("500m", "512Mi"), 50000, 512 << 20},
		"only CPU":        {limited("2", "1Gi"), 200000, 1 << 30},
		"only memory":     {limited("1", "2Gi"), 100000, 2 << 30},
		"without a limit": {limited("", "1Gi"), -1, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(limited("1", "1Gi")), time.Minute)
				n.settle(testPod(tc.to), time.Minute)
				n.wantStates("app 0 running")
				if r := n.inForce(); r.GetCpuQuota() != tc.quota || r.GetMemoryLimitInBytes() != tc.memory {
					t.Errorf("quota %d, memory %d; want %d, %d", r.GetCpuQuota(), r.GetMemoryLimitInBytes(), tc.quota, tc.memory)
				}
				if updates := n.Journal().Count(critest.UpdateContainerResources); updates != 1 {
					t.Errorf("%d updates, want one\n%v", updates, n.Journal())
				}
				if n.events.count("ResizeCompleted spec.containers{app} Container app resized") != 1 {
					t.Errorf("events %q, want 1", n.events.all)
				}
			})
		})
	}
}

func TestC10_ResizeByRestart(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		restarts := func(p *v1.Pod) {
			p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		}
		n.settle(testPod(limited("1", "1Gi"), restarts), time.Minute)
		n.settle(testPod(limited("1", "2Gi"), restarts), time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
		if r := n.inForce(); r.GetMemoryLimitInBytes() != 2<<30 {
			t.Errorf("memory %d, want %v", r.GetMemoryLimitInBytes(), 2<<30)
		}
		if n.Journal().Count(critest.UpdateContainerResources) != 0 || n.events.count("Killing spec.containers{app} Container app resize requires restart") != 1 {
			t.Errorf("events %q, want 0 and 1\n%v", n.events.all, n.Journal())
		}
	})
}

// C10: a failed resize is reported, retried with back-off, and delays no other
// step.
func TestC10_FailedResizeBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources}, Times: faults.Always, Err: errBroken})
		pod := testPod(limited("2", "1Gi"))
		if _, err := n.SyncPod(t.Context(), pod, nil); !errors.Is(err, syncpod.ErrResizeContainer) {
			t.Fatalf("error %v, want %v", err, syncpod.ErrResizeContainer)
		}
		if n.events.count("ResizeError spec.containers{app}") != 1 {
			t.Errorf("events %q, want 1", n.events.all)
		}
		n.drive(pod, 10*time.Minute)
		if gaps := n.gaps(critest.UpdateContainerResources); len(gaps) < 4 || gaps[0] != 10*time.Second || gaps[1] != 20*time.Second {
			t.Errorf("gaps %v, want at least 4 and %v and %v", gaps, 10*time.Second, 20*time.Second)
		}
		fault.Remove()
		n.drive(pod, 6*time.Minute)
		if r := n.inForce(); r.GetCpuQuota() != 200000 {
			t.Errorf("quota %d, want 200000", r.GetCpuQuota())
		}
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources}, Err: errBroken})
		if r, err := n.SyncPod(t.Context(), pod, nil); err == nil || time.Until(r.NextTry) != 10*time.Second {
			t.Errorf("error %v, next try in %v, want 10s after what has succeeded", err, time.Until(r.NextTry))
		}
	})
}

// C10: the record shows what has changed while no agent ran.
func TestC10_ResizeAfterARestart(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		n.restart(recorded(dir))
		n.sync(testPod(limited("2", "1Gi")))
		n.wantStates("app 0 running")
		if r := n.inForce(); r.GetCpuQuota() != 200000 {
			t.Errorf("quota %d, want 200000", r.GetCpuQuota())
		}
		n.restart(recorded(dir))
		n.sync(testPod(limited("2", "1Gi")))
		if updates := n.Journal().Count(critest.UpdateContainerResources); updates != 1 {
			t.Errorf("%d updates, want that of the agent before alone", updates)
		}
	})
}

// Containers that another agent has created are not resized, because nothing shows their resources.
func TestC10_UnknownResourcesAreLeft(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		n.restart()
		n.settle(testPod(limited("2", "1Gi")), time.Minute)
		n.wantStates("app 0 running")
		if updates := n.Journal().Count(critest.UpdateContainerResources); updates != 0 {
			t.Errorf("%d updates, want 0", updates)
		}
	})
}

// C10: the reported resources are the actual ones: before, during and after a resize, and even with
// an agent without records.
func TestC10_ReportedResourcesAreInForce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		reported := func(when, inForce, allocated string) {
			t.Helper()
			k := n.report.container("app")
			if got := k.Resources.Limits.Cpu().String(); got != inForce {
				t.Errorf("%s: %s is reported to be in force, want %s", when, got, inForce)
			}
			if got := k.AllocatedResources.Cpu().String(); got != allocated {
				t.Errorf("%s: %s is reported to be allocated, want %s", when, got, allocated)
			}
		}
		n.settle(testPod(limited("1", "1Gi")), time.Minute)
		reported("made", "1", "1")
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources}, Err: errBroken})
		bigger := testPod(limited("2", "1Gi"))
		if _, err := n.SyncPod(t.Context(), bigger, nil); err == nil {
			t.Fatal("the resize did not fail")
		}
		reported("while it fails", "1", "2")
		n.settle(bigger, time.Minute)
		reported("resized", "2", "2")
		n.restart()
		n.sync(testPod(limited("3", "1Gi")))
		reported("after a restart", "2", "3")
	})
}

// A container's status has its user and its stop signal, as the runtime reports them.
func TestStatusHasUserAndStopSignal(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(7)), RunAsGroup: new(int64(8)), SupplementalGroups: []int64{9}}
		}), time.Minute)
		k := n.report.container("app")
		if k.User == nil || k.User.Linux.UID != 7 || k.User.Linux.GID != 8 || !slices.Equal(k.User.Linux.SupplementalGroups, []int64{9}) {
			t.Errorf("user %+v, want UID 7, GID 8 and groups %v", k.User, []int64{9})
		}
		if k.StopSignal == nil || *k.StopSignal != v1.SIGTERM {
			t.Errorf("stop signal %v", k.StopSignal)
		}
	})
}
