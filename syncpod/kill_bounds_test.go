package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// K1: the grace period of containers whose sandbox must be replaced begins with the first
// attempt, and again for the next sandbox.
func TestK1_TimeOfAReplacedSandbox(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod()
		n.settle(pod, time.Minute)
		for range 2 {
			n.stubborn("app")
			must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
			began := time.Now()
			n.SyncPod(giveUp(t, 12*time.Second), pod, nil)
			n.SyncPod(t.Context(), pod, nil)
			if took := time.Since(began); took < 30*time.Second || took > 32*time.Second {
				t.Errorf("stopped after %v, want 30s\n%v", took, n.Journal().Of(critest.StopContainer))
			}
			n.settle(pod, time.Minute)
			time.Sleep(time.Hour)
		}
	})
}

// A runtime that does not answer holds a sync up for Config.Limits.StopTimeout.
func TestRemovalsAreBounded(t *testing.T) {
	for _, m := range []critest.Method{critest.StopContainer, critest.RemoveContainer} {
		for patience, want := range map[time.Duration]time.Duration{0: 30 * time.Second, 7 * time.Second: 7 * time.Second} {
			t.Run(fmt.Sprint(m, patience), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					n.restart(func(c *syncpod.Config) { c.Limits.StopTimeout = patience })
					n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
					n.SyncPod(t.Context(), testPod(), nil) // leaves a created container
					n.Fault(faults.Fault{Match: faults.Match{Method: m}, Hang: &faults.Gate{}})
					began := time.Now()
					if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrKillContainer) || time.Since(began) != want {
						t.Errorf("%v after %v, want %v", err, time.Since(began), want)
					}
				})
			})
		}
	}
}

// C1: a created container is stopped before it is removed: it may be about to start.
func TestC1_CreatedIsStoppedBeforeItIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(), nil)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), testPod(), nil); err == nil || n.Journal().Count(critest.RemoveContainer) != 0 {
			t.Errorf("error %v; it was removed without a stop\n%v", err, n.Journal())
		}
		n.settle(testPod(), time.Minute)
		n.wantStates("app 1 running")
	})
}

// W3: an interrupted stop does not count as failed, and is reported once.
func TestW3_InterruptedStopIsReportedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(preStop(ctr("hooked"), "sleep", "10"), ctr("deaf")))
		n.settle(pod, time.Minute)
		n.stubborn("hooked", "deaf")
		for range 2 {
			n.SyncTerminatingPod(giveUp(t, 5*time.Second), syncpod.Termination{Pod: pod})
		}
		if n.events.count("FailedPreStopHook")+n.events.count("ExceededGracePeriod") != 0 || n.events.count("Killing spec.containers{deaf}") != 1 {
			t.Errorf("events %q, want 0 and 1", n.events.all)
		}
		n.end(pod, nil)
		n.wantEnded()
	})
}

// K5: no handler is run in a container in an unknown state.
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

// If a container of a running pod does not stop, the kill is retried until
// the runtime answers. Its sandbox keeps running.
func TestKillOfOneContainerIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		before := len(n.Journal())
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: 2, Hang: &faults.Gate{}})
		changed := testPod()
		changed.Spec.Containers[0].Image = "registry.test/app:2"
		n.settle(changed, 2*time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
		calls := n.Journal().After(before)
		if calls.Count(critest.StopContainer) != 3 || calls.Count(critest.StopPodSandbox) != 0 {
			t.Errorf("calls %v, want 3 and 0", calls.Of(critest.StopContainer, critest.StopPodSandbox))
		}
	})
}

// T2: if a pod is known, its observed exits outlive the stop of a runtime pod with its
// UID.
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

// K6: a pod that cannot be inspected is not reported as stopped, and the error is
// reported.
func TestK6_NothingHasEndedUnseen(t *testing.T) {
	for name, given := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(), time.Minute)
				ended := syncpod.Termination{Pod: testPod()}
				if given {
					ended.Status = n.status()
				}
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Err: errBroken})
				if err := n.SyncTerminatingPod(t.Context(), ended); err == nil || !strings.Contains(err.Error(), "it is broken") {
					t.Errorf("error %v, want an error and %q in it", err, "it is broken")
				}
				n.end(testPod(), nil)
				n.wantEnded()
			})
		})
	}
}

// K4: the reason why a container could not be stopped is reported, even if its sandbox was stopped while
// the container keeps running.
func TestK4_ReasonWhyItStillRunsIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Err: status.Error(codes.NotFound, "not found")})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: errBroken})
		err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Deadline: time.Now()})
		if err == nil || !strings.Contains(err.Error(), "container app: stop container: ") {
			t.Errorf("error %v, want an error and %q in it", err, "container app: stop container: ")
		}
	})
}

// W3: the end of the grace period leads to a kill, even if the runtime is the first to report the timeout.
// A container that stops at that moment is not killed. The sandbox is stopped last.
func TestW3_AnySourceMayEndTheGracePeriod(t *testing.T) {
	for answer, kills := range map[error]bool{errDeadline: true, nil: false} {
		t.Run(fmt.Sprint(answer), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				var all []v1.Container // many, for it is open which of two timers of one instant is first
				for i := range 40 {
					all = append(all, ctr(fmt.Sprint("c", i)))
				}
				n.restart(func(c *syncpod.Config) { c.Client = n.calling(punctual{c.Client, answer}) })
				pod := testPod(containers(all...))
				n.settle(pod, time.Minute)
				n.end(pod, grace(10))
				want := 0
				if kills {
					want = len(all)
				}
				if told, stops := n.events.count("ExceededGracePeriod"), n.Journal().Count(critest.StopPodSandbox); told != want || stops != 1 {
					t.Errorf("%d containers of %d were killed, want %d; %d stops of the sandbox", told, len(all), want, stops)
				}
			})
		})
	}
}

// punctual answers in the very moment in which the caller's patience ends, unless it
// is to kill at once. If that is an error it has done nothing.
type punctual struct {
	runtimeapi.RuntimeServiceClient
	answer error
}

func (p punctual) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest, opts ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	end, _ := ctx.Deadline()
	if req.GetTimeout() != 0 && p.answer != nil {
		time.Sleep(time.Until(end))
		return nil, p.answer
	}
	resp, err := p.RuntimeServiceClient.StopContainer(ctx, req, opts...)
	if req.GetTimeout() != 0 {
		time.Sleep(time.Until(end))
	}
	return resp, err
}

// W3: a container whose stop call never reached the runtime has not got a signal: it gets two
// seconds, even after the deadline. If the signal may have been sent, because the answer was lost, the container gets only
// the remaining time.
func TestW3_TimeOfTheNextStop(t *testing.T) {
	for name, tc := range map[string]struct {
		hook string
		want time.Duration
	}{"given up during the handler": {"1000", 2 * time.Second}, "the answer was lost": {"0", 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(containers(preStop(ctr("app"), "sleep", tc.hook)))
				n.settle(pod, time.Minute)
				n.stubborn("app")
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer, If: func(c critest.Call) bool {
					return c.Request().(*runtimeapi.StopContainerRequest).GetTimeout() > 2
				}}, Err: status.Error(codes.Unavailable, "EOF")})
				n.SyncTerminatingPod(giveUp(t, 5*time.Second), syncpod.Termination{Pod: pod})
				began := time.Now()
				must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod, Deadline: began}))
				if took := time.Since(began); took != tc.want {
					t.Errorf("took %v, want %v\n%v", took, tc.want, n.Journal().Of(critest.StopContainer))
				}
			})
		})
	}
}

// If a container of a running pod does not stop, the sync of its stop calls the runtime a second time, without
// a separate limit.
func TestKillOfOneContainerWaitsForTheSecondAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: 2, Hang: &faults.Gate{}})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Delay: 10 * time.Second})
		changed := testPod()
		changed.Spec.Containers[0].Image = "registry.test/app:2"
		n.sync(changed)
		n.wantStates("app 0 exited", "app 1 running")
	})
}

// A pod without a UID has no memory. The memory of a pod that could not be stopped is not
// dropped. Afterwards an empty record is left until the pod is forgotten.
func TestRuntimePodThatIsNotStopped(t *testing.T) {
	records := syncpod.FileRecords{Dir: t.TempDir()}
	bubble(t, func(t *testing.T, n *node) {
		n.restart(recorded(records.Dir), func(c *syncpod.Config) { c.Parts.Messages = farewell{} })
		if err := n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{Name: "web"}); err == nil {
			t.Error("a pod without a UID has ended")
		}
		n.settle(testPod(), time.Minute)
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: errBroken})
		if err := n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{UID: podUID}); err == nil {
			t.Error("no error although the sandbox was not stopped")
		}
		fault.Remove()
		for _, want := range []int{1, 0} {
			if r, err := recordIn(t, records.Dir, podUID); err != nil || len(r.EverStarted) != want {
				t.Errorf("record %+v, %v, want one with %d started containers", r, err, want)
			}
			must(t, n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{UID: podUID}))
		}
		must(t, n.Forget(t.Context(), podUID))
		if all, err := n.RecordedPods(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("records of %v, %v, want none", all, err)
		}
	})
}

// A container that is only in the list of ephemeral containers is stopped as an ephemeral container.
func TestEphemeralContainerIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("one", "true")), ephemeral("debug", "sleep", "1000"))
		n.settle(pod, time.Minute)
		n.wantStates("app 0 running", "debug 0 running", "one 0 exited")
		n.end(pod, nil)
		n.wantEnded()
		if n.events.count("Killing spec.ephemeralContainers{debug}") != 1 || n.events.count("Started spec.initContainers{one}") != 1 {
			t.Errorf("events %q, want 1 and 1", n.events.all)
		}
	})
}
