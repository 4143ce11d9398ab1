package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// debugged adds an ephemeral container to a pod, and makes the pull of its image take until the gate opens. Then the pull returns err.
func (n *node) debugged(pod *v1.Pod, err error) (debugged *v1.Pod, gate *faults.Gate) {
	n.Helper()
	gate = &faults.Gate{}
	n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage, Image: "registry.test/slow:1"}, Hang: gate, Err: err})
	debugged = pod.DeepCopy()
	ephemeral("slow")(debugged)
	return debugged, gate
}

// inFlight begins a SyncPod, and returns a function that waits for its end.
func (n *node) inFlight(pod *v1.Pod) (wait func() error) {
	ended := make(chan error, 1)
	go func() {
		_, err := n.SyncPod(n.Context(), pod, nil)
		ended <- err
	}()
	time.Sleep(time.Second)
	return func() error { return <-ended }
}

// heldHooks makes an agent whose handlers run until the returned channel is closed.
func (n *node) heldHooks() (ends chan struct{}) {
	ends = make(chan struct{})
	n.restart(func(c *syncpod.Config) {
		c.Parts.Hooks = hooksFunc(func(context.Context, handler.Request) (handler.Result, error) {
			<-ends
			return handler.Result{}, nil
		})
	})
	return ends
}

// T12: while an image is pulled for another container of the pod, or another container is stopped, a container that ends or
// becomes unready is reported at once, and the status that follows is not older.
func TestT12_ReportedBesideTheWork(t *testing.T) {
	for _, work := range []string{"pull", "stop"} {
		t.Run(work, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				results := lockedProbes{}
				n.restart(func(c *syncpod.Config) { c.Parts.Probes = &results })
				app, other := ctr("app"), ctr("other")
				app.ReadinessProbe, other.LivenessProbe = &v1.Probe{}, &v1.Probe{}
				pod := testPod(containers(app, other, ctr("third")))
				n.settle(pod, time.Minute)
				id := n.current("app").ID
				results.set(id, actions.ProbeSuccess)
				n.sync(pod)
				gate := &faults.Gate{}
				if work == "pull" {
					pod, gate = n.debugged(pod, status.Error(codes.NotFound, "no such image"))
				} else {
					n.stubborn("other")
					results.setAll(id, actions.ProbeResults{Readiness: actions.ProbeSuccess})
					results.setAll(n.current("other").ID, actions.ProbeResults{Liveness: actions.ProbeFailure})
				}
				wait := n.inFlight(pod)
				if !n.report.container("app").Ready {
					t.Fatal("app is not ready before its probe fails")
				}
				results.setAll(id, actions.ProbeResults{Readiness: actions.ProbeFailure})
				n.ProbesChanged(podUID)
				time.Sleep(time.Second)
				if n.report.container("app").Ready {
					t.Error("app is still reported as ready")
				}
				n.exit("third", 3)
				n.Observe(t.Context(), n.status())
				time.Sleep(time.Second)
				n.wantReported("third", "")
				seen := n.report.count()
				gate.Open()
				if err := wait(); (err != nil) != (work == "pull") {
					t.Fatalf("SyncPod: %v", err)
				}
				for _, s := range n.report.all[seen:] {
					if c := s.ContainerStatuses[2]; c.State.Running != nil && c.RestartCount == 0 {
						t.Errorf("third is reported as running again: %+v", c)
					}
				}
			})
		})
	}
}

// T12: a pod whose last container ends during a SyncPod that may still start another one is not reported as finished.
func TestT12_NotFinishedWhileSomethingMayStart(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(never)
		n.settle(pod, time.Minute)
		gate := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: "slow"}, Hang: gate})
		ephemeral("slow")(pod)
		wait := n.inFlight(pod)
		n.exit("app", 0)
		n.Observe(t.Context(), n.status())
		time.Sleep(time.Second)
		synctest.Wait()
		if got := n.report.last().Phase; got != v1.PodRunning {
			t.Errorf("the pod is %s while its ephemeral container may start", got)
		}
		gate.Open()
		must(t, wait())
	})
}

// T12: a pod whose last container ends while an image is pulled for another one is finished, and the other one does not start.
func TestT12_FinishedDuringAPull(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(never)
		n.settle(pod, time.Minute)
		pod, _ = n.debugged(pod, nil)
		wait := n.inFlight(pod)
		time.Sleep(time.Second)
		n.exit("app", 0)
		n.Observe(t.Context(), n.status())
		must(t, wait())
		if got := n.report.last().Phase; got != v1.PodSucceeded {
			t.Errorf("the pod is %s, want Succeeded", got)
		}
		n.wantStates("app 0 exited")
	})
}

// B6: a container that crashes while an image is pulled for another container of its pod restarts at its back-off time, and is
// probed and reported; the other one starts when its image is present.
func TestB6_RestartsBesideAPull(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("other")))
		n.settle(pod, time.Minute)
		pod, gate := n.debugged(pod, nil)
		wait := n.inFlight(pod)
		for crash, within := range []time.Duration{2 * time.Second, 12 * time.Second, 22 * time.Second} {
			time.Sleep(time.Second)
			n.exit("app", 3)
			n.Observe(t.Context(), n.status())
			time.Sleep(within)
			if got := n.current("app"); int(got.Attempt) != crash+1 || got.State != runtime.ContainerRunning {
				t.Fatalf("app is %v of attempt %d %v after crash %d\n%v", got.State, got.Attempt, within, crash+1, n.Journal())
			}
			n.Observe(t.Context(), n.status())
			time.Sleep(200 * time.Millisecond)
			if got := n.report.container("app"); got.State.Running == nil || int(got.RestartCount) != crash+1 {
				t.Errorf("app is reported as %+v after crash %d", got, crash+1)
			}
		}
		gate.Open()
		must(t, wait())
		n.wantStates("app 0 exited", "app 1 exited", "app 2 exited", "app 3 running", "other 0 running", "slow 0 running")
	})
}

// B6: containers that start for the first time wait for the images of those before them, because a pod may rely on the order.
func TestB6_FirstStartsKeepTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		gate := &faults.Gate{}
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage, Image: "registry.test/first:1"}, Hang: gate})
		wait := n.inFlight(testPod(containers(ctr("first"), ctr("second"))))
		time.Sleep(time.Minute)
		n.wantStates()
		gate.Open()
		must(t, wait())
		n.wantStates("first 0 running", "second 0 running")
	})
}

// B6: the end of a SyncPod ends the pull, and the container does not start.
func TestB6_CancelledPullStartsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod()
		n.settle(pod, time.Minute)
		pod, gate := n.debugged(pod, nil)
		if _, err := n.SyncPod(giveUp(t, 5*time.Second), pod, nil); err == nil {
			t.Error("no error of a SyncPod that was cancelled")
		}
		gate.Open()
		time.Sleep(time.Minute)
		n.wantStates("app 0 running")
	})
}

// T12: a container is not reported as running while its postStart handler runs.
func TestT12_WaitingUntilItsHandlerHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ends := n.heldHooks()
		hooked := ctr("hooked")
		hooked.Lifecycle = &v1.Lifecycle{PostStart: exec("true")}
		pod := testPod(containers(ctr("app"), hooked))
		wait := n.inFlight(pod)
		n.Observe(t.Context(), n.status())
		time.Sleep(time.Second)
		if n.report.container("app").State.Running == nil {
			t.Errorf("app is reported as %+v, want running", n.report.container("app").State)
		}
		if n.report.container("hooked").State.Waiting == nil {
			t.Errorf("hooked is reported as %+v during its handler, want waiting", n.report.container("hooked").State)
		}
		close(ends)
		must(t, wait())
		n.sync(pod)
		if n.report.container("hooked").State.Running == nil {
			t.Errorf("hooked is reported as %+v, want running", n.report.container("hooked").State)
		}
	})
}

// B6: a container that crashes while another container of its pod takes its grace period to stop restarts at once, and the other
// one starts again after its stop, whatever its exit code.
func TestB6_RestartsBesideAStop(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		results := lockedProbes{}
		n.restart(func(c *syncpod.Config) { c.Parts.Probes = &results })
		sick := ctr("sick")
		sick.LivenessProbe = &v1.Probe{}
		pod := testPod(containers(ctr("app"), sick), func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyOnFailure })
		n.settle(pod, time.Minute)
		n.stubborn("sick")
		results.setAll(n.current("sick").ID, actions.ProbeResults{Liveness: actions.ProbeFailure})
		wait := n.inFlight(pod)
		time.Sleep(time.Second)
		n.exit("app", 3)
		n.Observe(t.Context(), n.status())
		time.Sleep(3 * time.Second)
		n.wantStates("app 0 exited", "app 1 running", "sick 0 running")
		must(t, n.ExitContainer(n.current("sick").ID.ID, critest.Exit{}))
		must(t, wait())
		n.wantStates("app 0 exited", "app 1 running", "sick 0 exited", "sick 1 running")
	})
}

// B6: a container that crashes while the postStart handler of another container of its pod runs restarts at once. A container that
// starts for the first time waits for the handler, because its pod may rely on the order. The handler's container is reported as
// running, and the other one starts, when the handler has ended, although a pull is still in flight.
func TestB6_RestartsBesideAHandler(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ends := n.heldHooks()
		pod := testPod(containers(ctr("app"), postStart(ctr("hooked"), "true"), ctr("last")))
		pod, gate := n.debugged(pod, nil)
		wait := n.inFlight(pod)
		time.Sleep(3 * time.Second)
		n.Observe(t.Context(), n.status())
		n.wantStates("app 0 running", "hooked 0 running")
		time.Sleep(time.Second)
		n.exit("app", 3)
		n.Observe(t.Context(), n.status())
		time.Sleep(2 * time.Second)
		n.wantStates("app 0 exited", "app 1 running", "hooked 0 running")
		n.Observe(t.Context(), n.status())
		time.Sleep(time.Second)
		if now := n.report.container("hooked"); now.State.Waiting == nil || now.RestartCount != 0 {
			t.Errorf("hooked is reported as %+v during its handler, want waiting", now)
		}
		close(ends)
		time.Sleep(time.Second)
		n.wantStates("app 0 exited", "app 1 running", "hooked 0 running", "last 0 running")
		if n.report.container("hooked").State.Running == nil {
			t.Errorf("hooked is reported as %+v after its handler, want running", n.report.container("hooked").State)
		}
		gate.Open()
		must(t, wait())
		n.wantStates("app 0 exited", "app 1 running", "hooked 0 running", "last 0 running", "slow 0 running")
	})
}

// T7: the reason that a container waited for before its last start is not that of its next end, which a status shows before the
// pod is decided again.
func TestT7_EndBesideAHandler(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ends := n.heldHooks()
		wait := n.inFlight(testPod(containers(ctr("app"), postStart(ctr("hooked"), "true"))))
		for range 2 {
			time.Sleep(3 * time.Second)
			n.exit("app", 3)
			n.Observe(t.Context(), n.status())
			time.Sleep(20 * time.Second)
		}
		n.exit("app", 3)
		time.Sleep(time.Minute) // the agent hears of the end after its back-off
		n.Observe(t.Context(), n.status())
		time.Sleep(3 * time.Second)
		n.report.wantSteady(t, "app")
		n.wantStates("app 0 exited", "app 1 exited", "app 2 exited", "app 3 running", "hooked 0 running")
		close(ends)
		must(t, wait())
	})
}

// B6: a handler that an agent crash has interrupted delays no restart either, and its failure stops its container alone.
func TestB6_RestartsBesideAnInterruptedHandler(t *testing.T) {
	withRecords(t, func(t *testing.T, n *node, dir string) {
		pod := testPod(containers(ctr("app"), postStart(ctr("hooked"), "sleep", "100000")))
		n.crashDuring(critest.StartContainer, "hooked", func(ctx context.Context) { n.SyncPod(ctx, pod, nil) }, recorded(dir))
		wait := n.inFlight(pod)
		time.Sleep(time.Second)
		n.exit("app", 3)
		n.Observe(t.Context(), n.status())
		time.Sleep(2 * time.Second)
		n.wantStates("app 0 exited", "app 1 running", "hooked 0 running")
		if err := wait(); !errors.Is(err, syncpod.ErrHookTimeout) {
			t.Errorf("error %v, want %v", err, syncpod.ErrHookTimeout)
		}
		n.wantStates("app 0 exited", "app 1 running", "hooked 0 exited")
	})
}

// B6: a pod whose sandbox is lost starts over at once, although a handler runs in the old one.
func TestB6_NewSandboxDuringAHandler(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(postStart(ctr("hooked"), "sleep", "100000")))
		wait := n.inFlight(pod)
		time.Sleep(3 * time.Second)
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.Observe(t.Context(), n.status())
		time.Sleep(5 * time.Second)
		n.wantStates("hooked 0 exited", "hooked 1 running")
		if err := wait(); !errors.Is(err, syncpod.ErrHookTimeout) {
			t.Errorf("error %v, want %v", err, syncpod.ErrHookTimeout)
		}
	})
}
