package syncpod_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// methods are the calls made since the first n, in order.
func (n *node) methods(since int) (all []critest.Method) {
	for _, c := range n.Journal()[since:] {
		all = append(all, c.Method)
	}
	return all
}

// The agent makes no more calls for a pod than a minimal manual start.
func TestCallsOfAStart(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want []critest.Method
	}{
		"one container": {testPod(), []critest.Method{
			critest.RunPodSandbox, critest.PodSandboxStatus, critest.ImageStatus, critest.CreateContainer, critest.StartContainer,
		}},
		"on the node's network": {testPod(func(p *v1.Pod) { p.Spec.HostNetwork = true }), []critest.Method{
			critest.RunPodSandbox, critest.ImageStatus, critest.CreateContainer, critest.StartContainer,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				before := len(n.Journal())
				if _, err := n.SyncPod(t.Context(), tc.pod, &runtime.PodStatus{UID: podUID}); err != nil {
					t.Fatal(err)
				}
				if got := n.methods(before); !slices.Equal(got, tc.want) {
					t.Errorf("calls %v, want %v", got, tc.want)
				}
			}, func(c *critest.Config) { c.Images = []critest.Image{{Name: "registry.test/app:1"}} })
		})
	}
}

func TestASettledPodCostsNoCall(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("one", "true"), sidecar("proxy")))
		n.settle(pod, time.Minute)
		status := n.status()
		before, reported := len(n.Journal()), len(n.report.all)
		for range 3 {
			r, err := n.SyncPod(t.Context(), pod, status)
			if err != nil || !r.Plan.NoOp() {
				t.Fatal(r, err)
			}
			synctest.Wait()
		}
		if got := n.methods(before); len(got) > 0 || len(n.report.all) != reported {
			t.Errorf("calls %v, and %d reports, want none", got, len(n.report.all)-reported)
		}
	})
}

// The stop of a settled pod makes two calls that change the runtime, and one list.
func TestCallsOfAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		status, before := n.status(), len(n.Journal())
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Status: status}))
		looks := n.Journal().After(before)
		if got := slices.Compact(n.methods(before)[:2]); !slices.Equal(got,
			[]critest.Method{critest.StopContainer, critest.StopPodSandbox}) || len(looks.Changes()) != 2 || looks.Count(critest.ListContainers) != 1 {
			t.Errorf("calls, want %v as the only changes, and one list of containers\n%v", []critest.Method{critest.StopContainer, critest.StopPodSandbox}, looks)
		}
	})
}
