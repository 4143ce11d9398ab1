package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// K1: the time of containers whose sandbox is to be replaced begins when that is
// first tried, and for the next sandbox anew.
func TestK1_TimeOfAReplacedSandbox(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod()
		n.settle(pod, time.Minute)
		for range 2 {
			n.stubborn("app")
			must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
			n.SyncPod(ctx, pod, nil)
			cancel()
			n.SyncPod(t.Context(), pod, nil)
			if took := time.Since(began); took < 30*time.Second || took > 32*time.Second {
				t.Errorf("stopped after %v, want 30s\n%v", took, n.Journal().Of(critest.StopContainer))
			}
			n.settle(pod, time.Minute)
			time.Sleep(time.Hour)
		}
	})
}

// A runtime that does not answer holds a sync up for Config.StopPatience.
func TestRemovalsAreBounded(t *testing.T) {
	for _, m := range []critest.Method{critest.StopContainer, critest.RemoveContainer} {
		t.Run(string(m), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.restart(func(c *syncpod.Config) { c.StopPatience = 7 * time.Second })
				n.inject(critest.Fault{Match: critest.Match{Method: critest.StartContainer}, Err: errBroken})
				n.SyncPod(t.Context(), testPod(), nil) // leaves a created container
				n.inject(critest.Fault{Match: critest.Match{Method: m}, Hang: &critest.Gate{}})
				began := time.Now()
				if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrKillContainer) || time.Since(began) != 7*time.Second {
					t.Errorf("%v after %v, want 7s", err, time.Since(began))
				}
			})
		})
	}
}

// C1: a created container is stopped before it is removed: it may be about to start.
func TestC1_CreatedIsStoppedBeforeItIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.inject(critest.Fault{Match: critest.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(), nil)
		n.inject(critest.Fault{Match: critest.Match{Method: critest.StopContainer}, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), testPod(), nil); err == nil || n.Journal().Count(critest.RemoveContainer) != 0 {
			t.Errorf("error %v; it was removed without a stop\n%v", err, n.Journal())
		}
		n.settle(testPod(), time.Minute)
		n.wantStates("app 1 running")
	})
}

// W3: a stop that is interrupted has not failed, and is told once.
func TestW3_InterruptedStopIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(preStop(ctr("hooked"), "sleep", "10"), ctr("deaf")))
		n.settle(pod, time.Minute)
		n.stubborn("hooked", "deaf")
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod})
			cancel()
		}
		if n.events.count("FailedPreStopHook")+n.events.count("ExceededGracePeriod") != 0 || n.events.count("Killing spec.containers{deaf}") != 1 {
			t.Errorf("events %q", n.events.all)
		}
		n.end(pod, nil)
		n.wantEnded()
	})
}

// K5: in a container of which the runtime cannot tell no handler is run.
func TestK5_UnknownHasNoHandler(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(preStop(ctr("app"), "sleep", "10")))
		n.settle(pod, time.Minute)
		must(t, n.EditContainer(n.current("app").ID.ID, func(s *runtimeapi.ContainerStatus) { s.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN }))
		if n.end(pod, nil); n.hooks.calls != 0 {
			t.Errorf("%d handlers were run", n.hooks.calls)
		}
	})
}

// A container that does not stop in a pod that goes on is asked to be killed until
// the runtime answers, and its sandbox is left alone.
func TestKillOfOneContainerIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		before := len(n.Journal())
		n.inject(critest.Fault{Match: critest.Match{Method: critest.StopContainer}, Times: 2, Hang: &critest.Gate{}})
		changed := testPod()
		changed.Spec.Containers[0].Image = "registry.test/app:2"
		n.settle(changed, 2*time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
		calls := n.Journal().After(before)
		if calls.Count(critest.StopContainer) != 3 || calls.Count(critest.StopPodSandbox) != 0 {
			t.Errorf("calls %v", calls.Of(critest.StopContainer, critest.StopPodSandbox))
		}
	})
}

// T2: of a pod that is known all the same, what was seen outlives the stop of what
// only the runtime knows.
func TestT2_KeptOverTheStopOfARuntimePod(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(never, containers(ctr("app"), ctr("b")))
		n.settle(pod, time.Minute)
		n.exit("app", 42)
		n.sync(pod)
		must(t, n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{UID: podUID, Keep: true}))
		must(t, n.Remove(n.current("app").ID.ID))
		must(t, n.SyncTerminatedPod(t.Context(), pod, &runtime.PodStatus{UID: podUID}))
		if c := n.report.container("app").State.Terminated; c == nil || c.ExitCode != 42 {
			t.Errorf("reported %+v, want exit code 42", c)
		}
	})
}
