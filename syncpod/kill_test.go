package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

func preStop(c v1.Container, command ...string) v1.Container {
	c.Lifecycle = &v1.Lifecycle{PreStop: exec(command...)}
	return c
}

// stubborn makes a container ignore its stop signal.
func (n *node) stubborn(names ...string) {
	n.Helper()
	for _, name := range names {
		n.Must(n.SetIgnoreSignals(n.current(name).ID.ID, faults.IgnoreSignals{Term: true}))
	}
}

func grace(seconds int64) *int64 { return &seconds }

// end ends the pod and returns how long that took.
func (n *node) end(pod *v1.Pod, g *int64) time.Duration {
	n.Helper()
	began := time.Now()
	t := syncpod.Termination{Pod: pod}
	if g != nil {
		t.Deadline = began.Add(time.Duration(*g) * time.Second)
	}
	if err := n.SyncTerminatingPod(n.Context(), t); err != nil {
		n.Fatalf("SyncTerminatingPod: %v\n%v", err, n.Journal())
	}
	return time.Since(began)
}

// The last status of a pod without objects in the runtime has the recorded
// exits (kubernetes #104107).
func TestLastStatusWithoutTheRuntime(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(recorded(dir))
		pod := testPod(never)
		n.settle(pod, time.Minute)
		n.exit("app", 3)
		n.sync(pod)
		n.end(pod, nil)
		must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectRemoved, Containers: faults.EffectRemoved}))
		time.Sleep(time.Second)
		n.restart(recorded(dir))
		must(t, n.SyncTerminatedPod(t.Context(), pod, nil))
		if end := n.report.container("app").State.Terminated; end == nil || end.ExitCode != 3 {
			t.Errorf("reported as %+v, want exit code 3", end)
		}
	})
}

func (n *node) wantEnded() {
	n.Helper()
	for _, c := range n.status().Containers {
		if c.Live() {
			n.Errorf("%s %d is %v", c.Name, c.Attempt, c.State)
		}
	}
	if n.readySandboxes() > 0 {
		n.Error("a sandbox is ready")
	}
}

// K1: from the request to SIGKILL it takes the grace period and two seconds at
// most, with a hung hook, a deaf process, and sidecars behind it.
func TestK1_TimeToEnd(t *testing.T) {
	for _, g := range []int64{0, 1, 2, 30} {
		for what, pod := range map[string]*v1.Pod{
			"plain":    testPod(),
			"hook":     testPod(containers(preStop(ctr("app"), "sleep", "100000"))),
			"sidecars": testPod(inits(sidecar("s1"), sidecar("s2")), containers(preStop(ctr("app"), "sleep", "100000"))),
		} {
			for _, deaf := range []bool{false, true} {
				t.Run(fmt.Sprintf("grace %d/%s/deaf %v", g, what, deaf), func(t *testing.T) {
					bubble(t, func(t *testing.T, n *node) {
						n.settle(pod, time.Minute)
						if deaf {
							n.stubborn("app")
							for _, c := range pod.Spec.InitContainers {
								n.stubborn(c.Name)
							}
						}
						took := n.end(pod, grace(g))
						n.wantEnded()
						if limit := time.Duration(g+2) * time.Second; took > limit {
							t.Errorf("took %v, limit %v\n%v", took, limit, n.Journal())
						}
						if least := time.Duration(g) * time.Second; deaf && took < least {
							t.Errorf("took %v, less than the grace period of %v", took, least)
						}
						for _, c := range n.Journal().Of(critest.StopContainer) {
							if got := c.Request().(*runtimeapi.StopContainerRequest).GetTimeout(); got < 2 {
								t.Errorf("a container was given %d s", got)
							}
						}
						if n.hooks.calls > 0 && g == 0 {
							t.Error("a hook was run without any time for it")
						}
					})
				})
			}
		}
	}
}

// K1: if a preStop handler still runs when the grace period expires, it gets two more seconds, once, and its container is
// stopped within them. The same holds for sidecars. A handler that ends within these seconds has not failed.
func TestK1_AHookThatRunsHasTwoSecondsMore(t *testing.T) {
	hooked := func(c v1.Container, seconds string) v1.Container { return preStop(c, "sleep", seconds) }
	for name, tc := range map[string]struct {
		pod        *v1.Pod
		deaf       bool
		took, hook time.Duration
		failed     int
	}{
		"hook hangs":           {testPod(containers(hooked(ctr("app"), "1000"))), true, 32 * time.Second, 32 * time.Second, 1},
		"hook ends in them":    {testPod(containers(hooked(ctr("app"), "31"))), true, 32 * time.Second, 31 * time.Second, 0},
		"container ends first": {testPod(containers(hooked(ctr("app"), "1000"))), false, 30 * time.Second, 30 * time.Second, 1},
		"sidecars": {testPod(inits(hooked(sidecar("s1"), "1000"), hooked(sidecar("s2"), "1000")), containers(hooked(ctr("app"), "1000"))),
			true, 32 * time.Second, 32 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(tc.pod, time.Minute)
				if tc.deaf {
					n.stubborn("app")
					for _, c := range tc.pod.Spec.InitContainers {
						n.stubborn(c.Name)
					}
				}
				if took := n.end(tc.pod, nil); took != tc.took {
					t.Errorf("the pod ended after %v, want %v", took, tc.took)
				}
				n.wantEnded()
				synctest.Wait() // the runtime records a call's end after its caller has given up
				hooks := n.Journal().Of(critest.ExecSync)
				if len(hooks) != 1+len(tc.pod.Spec.InitContainers) {
					t.Errorf("%d handlers were run\n%v", len(hooks), hooks)
				}
				for _, c := range hooks {
					if took := c.End.Sub(c.Start); took != tc.hook {
						t.Errorf("the handler of %s ran for %v, want %v", c.Container, took, tc.hook)
					}
				}
				if got := n.events.count("FailedPreStopHook"); got != tc.failed {
					t.Errorf("%d events, want %d\n%q", got, tc.failed, n.events.all)
				}
			})
		})
	}
}

func TestK1_HookLeavesTheRestOfTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(preStop(ctr("app"), "sleep", "12")))
		n.settle(pod, time.Minute)
		n.stubborn("app")
		if took := n.end(pod, nil); took != 30*time.Second {
			t.Errorf("took %v, want 30s\n%v", took, n.Journal())
		}
	})
}

func TestK1_Grace(t *testing.T) {
	probe := func(g int64) *v1.Probe { return &v1.Probe{TerminationGracePeriodSeconds: &g} }
	for name, tc := range map[string]struct {
		pod  func(*v1.Pod)
		g    *int64
		want time.Duration
	}{
		"spec":               {func(*v1.Pod) {}, nil, 30 * time.Second},
		"deletion":           {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = grace(7) }, nil, 7 * time.Second},
		"override":           {func(p *v1.Pod) { p.DeletionGracePeriodSeconds = grace(7) }, grace(11), 11 * time.Second},
		"nothing":            {func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = nil }, nil, 2 * time.Second},
		"probe is not asked": {func(p *v1.Pod) { p.Spec.Containers[0].LivenessProbe = probe(3) }, nil, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(tc.pod)
				n.settle(pod, time.Minute)
				n.stubborn("app")
				if took := n.end(pod, tc.g); took != tc.want {
					t.Errorf("took %v, want %v", took, tc.want)
				}
			})
		})
	}
}

// KEP-2238: a container that failed a probe has the time that the probe gives it.
func TestK1_GraceOfAProbe(t *testing.T) {
	own := &v1.Probe{TerminationGracePeriodSeconds: grace(4)}
	for name, tc := range map[string]struct {
		probe v1.Container
		is    actions.ProbeResults
		want  time.Duration
	}{
		"liveness":      {v1.Container{LivenessProbe: own}, actions.ProbeResults{Liveness: actions.ProbeFailure}, 4 * time.Second},
		"startup":       {v1.Container{StartupProbe: own}, actions.ProbeResults{Startup: actions.ProbeFailure}, 4 * time.Second},
		"no time of it": {v1.Container{LivenessProbe: &v1.Probe{}}, actions.ProbeResults{Liveness: actions.ProbeFailure}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod()
				app := &pod.Spec.Containers[0]
				app.LivenessProbe, app.StartupProbe = tc.probe.LivenessProbe, tc.probe.StartupProbe
				n.settle(pod, time.Minute)
				n.stubborn("app")
				results := probes{n.current("app").ID: tc.is}
				n.restart(func(c *syncpod.Config) { c.Parts.Probes = results })
				began := time.Now()
				n.sync(pod)
				if took := time.Since(began); took != tc.want {
					t.Errorf("took %v, want %v", took, tc.want)
				}
				if n.events.count(" probe, will be restarted") != 1 {
					t.Errorf("events %q, want 1", n.events.all)
				}
			})
		})
	}
}

// probes are results by container.
type probes map[runtime.ContainerID]actions.ProbeResults

func (p probes) ProbeResults(types.UID) map[runtime.ContainerID]actions.ProbeResults { return p }
func (probes) Observe(*v1.Pod, *runtime.PodStatus, bool)                             {}
func (probes) Forget(types.UID)                                                      {}

// K1: stopping a pod failed while it was not admitted, and now it is. When its sandbox is
// to be replaced much later its containers have their whole time again.
func TestK1_ATimeThatWasNotUsedIsNotRemembered(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var refusal *syncpod.Rejection
		n.restart(func(c *syncpod.Config) {
			c.Extensions.Admit = []syncpod.Admitter{admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection { return refusal })}
		})
		pod := testPod()
		n.settle(pod, time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: errBroken})
		refusal = &syncpod.Rejection{Reason: "Busy"}
		if _, err := n.SyncPod(t.Context(), pod, nil); err == nil {
			t.Fatal("the stop has not failed")
		}
		refusal = nil
		n.settle(pod, time.Minute)
		n.wantStates("app 0 running")
		time.Sleep(time.Hour)
		n.stubborn("app")
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) {
			s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}))
		began := time.Now()
		n.sync(pod)
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("replaced within %v, want the 30s of its grace period\n%v", took, n.Journal())
		}
		n.wantStates("app 0 exited", "app 1 running")
	})
}

func TestK1_DeadlineCountsFromTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.stubborn("app")
		began := time.Now()
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Deadline: began.Add(9 * time.Second)}))
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("took %v, want 9s", took)
		}
	})
}

func TestK1_ARefusedStopStillLeavesTwoSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.stubborn("app")
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: errBroken})
		// The sandbox must not take the container with it.
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Err: status.Error(codes.InvalidArgument, "no")})
		ended := syncpod.Termination{Pod: testPod(), Deadline: time.Now()}
		if err := n.SyncTerminatingPod(t.Context(), ended); err == nil {
			t.Fatal("no error")
		}
		began := time.Now()
		must(t, n.SyncTerminatingPod(t.Context(), ended))
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("killed after %v, want 2s", took)
		}
	})
}

func TestI5_SidecarsStopLastInReverse(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(sidecar("s1"), sidecar("s2")))
		n.settle(pod, time.Minute)
		before := len(n.Journal())
		n.end(pod, nil)
		stops := n.Journal().After(before).Of(critest.StopContainer)
		var order []string
		for _, c := range stops {
			order = append(order, c.Container)
		}
		if want := []string{"app", "s2", "s1"}; !slices.Equal(order, want) || stops.MaxConcurrent() != 1 {
			t.Errorf("stopped %v, want %v one after the other\n%v", order, want, stops)
		}
	}, func(c *critest.Config) {
		c.Latency = map[critest.Method]time.Duration{critest.StopContainer: time.Second}
	})
}

func TestI5_FailedStopDoesNotKeepSidecarsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(sidecar("s1")))
		n.settle(pod, time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer, Container: "app"}, Err: errBroken})
		began := time.Now()
		if err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}); err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v, want at most %v", took, time.Second)
		}
	})
}

// I5: if the first attempt to stop a container fails, its sidecar is not stopped before it. At the end of the grace period
// it is.
func TestI5_FailedStopComesFirstAgain(t *testing.T) {
	for name, grace := range map[string]int64{"in time": 30, "time over": 3} {
		bubble(t, func(t *testing.T, n *node) {
			pod := testPod(inits(sidecar("s1"), sidecar("s2")))
			n.settle(pod, time.Minute)
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer, Container: "app"}, Times: 4, Err: errBroken})
			before, began := len(n.Journal()), time.Now()
			for n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod, Deadline: began.Add(time.Duration(grace) * time.Second)}) != nil {
				time.Sleep(time.Second)
			}
			stops := n.Journal().After(before).Of(critest.StopContainer)
			first := stops.Where(func(c critest.Call) bool { return c.Container != "app" })[0]
			if early := first.Start.Sub(began) < time.Duration(min(grace, 4))*time.Second; early || first.Container != "s2" && grace > 4 {
				t.Errorf("%s: stopped too early, or another one before s2\n%v", name, stops)
			}
		})
	}
}

// W3: a second, earlier deadline applies at once, regardless of the step in
// progress.
func TestW3_ShorterDeadlineActsAtOnce(t *testing.T) {
	for name, setup := range map[string]struct {
		pod  *v1.Pod
		deaf faults.IgnoreSignals
		hang bool
	}{
		"hung hook":                     {pod: testPod(containers(preStop(ctr("app"), "sleep", "100000")))},
		"deaf process":                  {pod: testPod(), deaf: faults.IgnoreSignals{Term: true}},
		"runtime deaf to a second stop": {pod: testPod(), deaf: faults.IgnoreSignals{Term: true}, hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(setup.pod, time.Minute)
				id := n.current("app").ID.ID
				must(t, n.SetIgnoreSignals(id, setup.deaf))
				gate := &faults.Gate{}
				if setup.hang {
					n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Skip: 1, Times: faults.Always, Hang: gate})
				}
				began := time.Now()
				ctx := giveUp(t, 5*time.Second)
				if err := n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: setup.pod, Deadline: began.Add(120 * time.Second)}); err == nil {
					t.Fatal("no error although it was interrupted")
				}
				if time.Since(began) != 5*time.Second {
					t.Fatalf("the first call returned after %v", time.Since(began))
				}
				err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: setup.pod, Deadline: began.Add(15 * time.Second)})
				if err != nil {
					t.Errorf("%v\n%v", err, n.Journal())
				}
				if took := time.Since(began); took > 17*time.Second {
					t.Errorf("ended after %v, want 17s at most\n%v", took, n.Journal())
				}
				if got := n.peek(id); got != runtimeapi.ContainerState_CONTAINER_EXITED {
					t.Errorf("app is %v, want %v", got, runtimeapi.ContainerState_CONTAINER_EXITED)
				}
				if hooks := n.Journal().Count(critest.ExecSync); hooks > 1 {
					t.Errorf("the hook was run %d times", hooks)
				}
			})
		})
	}
}

// W3: a process that has got the signal gets only the remaining time.
func TestW3_SecondStopHasTheRemainingTime(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.stubborn("app")
		began := time.Now()
		ctx := giveUp(t, 5*time.Second)
		n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: testPod()})
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Deadline: began.Add(6 * time.Second)}))
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("took %v, want 6s\n%v", took, n.Journal().Of(critest.StopContainer))
		}
	})
}

func TestW3_EscalatesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: faults.Always, Hang: &faults.Gate{}})
		before := len(n.Journal())
		took := n.end(testPod(), grace(10))
		var calls []string
		for _, c := range n.Journal().After(before).Of(critest.StopContainer, critest.StopPodSandbox) {
			calls = append(calls, string(c.Method))
		}
		if want := []string{"StopContainer", "StopContainer", "StopPodSandbox"}; !slices.Equal(calls, want) {
			t.Errorf("calls %v, want %v", calls, want)
		}
		if took > 12*time.Second {
			t.Errorf("took %v, want at most %v", took, 12*time.Second)
		}
		if n.events.count("ExceededGracePeriod") != 1 {
			t.Errorf("events %q, want 1", n.events.all)
		}
	})
}

// K2: missing objects count as stopped and removed.
func TestK2_NotFoundIsSuccess(t *testing.T) {
	for name, answer := range map[string]error{
		"by code": status.Error(codes.NotFound, "not found"),
		"by text": status.Error(codes.Unknown, "No such container: 1234"),
	} {
		for _, method := range []critest.Method{critest.StopContainer, critest.StopPodSandbox} {
			t.Run(fmt.Sprint(name, "/", method), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					n.settle(testPod(), time.Minute)
					n.OnCall(func(_ int, c critest.Call) {
						if c.Method == method && c.Err != nil {
							for _, id := range []string{c.ContainerID, c.SandboxID} {
								_ = n.Remove(id) // the container is really removed
							}
						}
					})
					n.Fault(faults.Fault{Match: faults.Match{Method: method}, Err: answer})
					n.end(testPod(), nil)
					n.wantEnded()
				})
			})
		}
	}
	t.Run("RemoveContainer", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *node) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
			n.SyncPod(t.Context(), testPod(), nil)
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemoveContainer}, When: faults.After, Err: status.Error(codes.NotFound, "not found")})
			time.Sleep(time.Minute)
			n.sync(testPod())
			n.wantStates("app 1 running")
		})
	})
}

func TestK3_ExitCodesAreReportedThoughTheSandboxDoesNotStop(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: errBroken})
		if err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}); err == nil {
			t.Fatal("no error")
		}
		if c := n.report.container("app").State.Terminated; c == nil || c.ExitCode != 143 {
			t.Errorf("reported %+v, want exit code 143", c)
		}
		fault.Remove()
		n.end(testPod(), nil)
		n.wantEnded()
	})
}

// K3: a sandbox that cannot be stopped does not keep the others from being stopped.
func TestK3_OtherSandboxesAreStopped(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.settle(testPod(), time.Minute)
		for i, sb := range n.status().Sandboxes {
			before := len(n.Journal())
			fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox, ID: sb.ID}, Times: faults.Always, Err: errBroken})
			if err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}); err == nil {
				t.Errorf("no error although sandbox %d was not stopped", sb.Attempt)
			}
			fault.Remove()
			other := n.status().Sandboxes[1-i]
			stops := n.Journal().After(before).Of(critest.StopPodSandbox)
			if !slices.ContainsFunc(stops, func(c critest.Call) bool { return c.SandboxID == other.ID && c.Err == nil }) {
				t.Errorf("sandbox %d was not stopped while %d could not be\n%v", other.Attempt, sb.Attempt, stops)
			}
		}
	})
}

func TestK5_UnknownIsStoppedBeforeItIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		id := n.current("app").ID.ID
		doubt := func(s *runtimeapi.ContainerStatus) { s.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN }
		must(t, n.EditContainer(id, doubt))
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: faults.Always, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrKillContainer) {
			t.Fatalf("error %v", err)
		}
		n.wantStates("app 0 unknown")
		fault.Remove()
		n.settle(testPod(), time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
	})
}

func TestK6_AllThatIsAliveIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("created"), ctr("unknown"), ctr("running")))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer, Container: "created"}, Err: errBroken})
		n.SyncPod(t.Context(), pod, nil)
		must(t, n.EditContainer(n.current("unknown").ID.ID, func(s *runtimeapi.ContainerStatus) { s.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN }))
		n.wantStates("created 0 created", "running 0 running", "unknown 0 unknown")
		n.end(pod, nil)
		n.wantEnded()
		n.wantStates("running 0 exited", "unknown 0 exited")
	})
}

// K6: an interrupted start takes effect while the pod is being stopped.
func TestK6_ContainerThatStartsMeanwhileIsStopped(t *testing.T) {
	for _, late := range []time.Duration{10 * time.Second, 70 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, When: faults.Midway, Delay: late, IgnoreCancel: true})
				ctx := giveUp(t, 5*time.Second)
				n.SyncPod(ctx, testPod(), nil)
				var err error
				for range 20 {
					if err = n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}); err == nil {
						break
					}
					time.Sleep(5 * time.Second)
				}
				must(t, err)
				time.Sleep(5 * time.Minute)
				n.wantEnded()
			})
		})
	}
}

// K6: an outdated status does not show the running container; the last inspection does.
func TestK6_TheLastInspectionFindsLaterContainers(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(containers(ctr("app"), ctr("b"))), time.Minute)
		stale := n.status()
		stale.Containers = stale.Containers[:1]
		stale.Sandboxes = nil
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(), Status: stale}))
		n.wantEnded()
	})
}

// K4: a running container is not reported as exited, regardless of the runtime's answers.
func TestK4_NothingAliveIsCalledEnded(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		// The runtime says that it has stopped the container, and has not.
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, When: faults.Before, Err: status.Error(codes.NotFound, "not found"), Times: faults.Always})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, When: faults.Before, Err: status.Error(codes.NotFound, "not found"), Times: faults.Always})
		if err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}); !errors.Is(err, syncpod.ErrStillRunning) {
			t.Errorf("error %v, want %v", err, syncpod.ErrStillRunning)
		}
		if n.events.count("Killing ") != 1 {
			t.Errorf("events %q, want 1", n.events.all)
		}
	})
}

func TestK4_UnkillableProcessIsReportedAndEndsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		must(t, n.SetIgnoreSignals(n.current("app").ID.ID, faults.IgnoreSignals{Term: true, Kill: true}))
		began := time.Now()
		err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()})
		if err == nil || !strings.Contains(err.Error(), "container app: stop container: ") {
			t.Errorf("error %v, want why app was not stopped", err)
		}
		if took := time.Since(began); took > 3*time.Minute {
			t.Errorf("returned after %v", took)
		}
		must(t, n.SetIgnoreSignals(n.current("app").ID.ID, faults.IgnoreSignals{}))
		synctest.Wait()
		n.end(testPod(), nil)
		n.wantEnded()
	})
}

func TestRuntimePodEndsWithinThreeSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(containers(preStop(ctr("app"), "sleep", "1000"))), time.Minute)
		n.stubborn("app")
		began := time.Now()
		must(t, n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{UID: podUID}))
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %v, want at most %v", took, 3*time.Second)
		}
		n.wantEnded()
	})
}

// T2: an exit code that was seen is reported, although the runtime has lost it.
func TestT2_ExitCodeSeenIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")), func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever })
		n.settle(pod, time.Minute)
		n.exit("app", 42)
		n.sync(pod)
		must(t, n.Remove(n.current("app").ID.ID))
		n.end(pod, nil)
		if c := n.report.container("app").State.Terminated; c == nil || c.ExitCode != 42 {
			t.Errorf("reported %+v, want exit code 42", c)
		}
		must(t, n.SyncTerminatedPod(t.Context(), pod, n.status()))
		if c := n.report.container("app").State.Terminated; c == nil || c.ExitCode != 42 {
			t.Errorf("reported last %+v, want exit code 42", c)
		}
	})
}

// E4: a status that cannot be published does not hold up a stop.
func TestE4_FailingReportsDoNotDelayStops(t *testing.T) {
	for name, setup := range map[string]func(*reports){
		"fails": func(r *reports) { r.err = errors.New("no API server") },
		"hangs": func(r *reports) { r.block = make(chan struct{}) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(), time.Minute)
				n.report.mu.Lock()
				setup(n.report)
				n.report.mu.Unlock()
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if err := n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: testPod()}); err == nil {
					t.Error("no error although the report failed")
				}
				if stop := n.Journal().Of(critest.StopContainer)[0]; !stop.Start.Equal(began) {
					t.Errorf("stopped %v later", stop.Start.Sub(began))
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("took %v, want at most %v", took, time.Minute)
				}
				n.wantEnded()
			})
		})
	}
}

// E4: objects that the runtime has lost are created again.
func TestE4_LostContainerIsMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		must(t, n.Remove(n.current("app").ID.ID))
		n.settle(testPod(), time.Minute)
		n.wantStates("app 1 running")
	})
}

func TestTerminatedPodIsTidiedUpAndForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var cleaned []string
		fail := errors.New("volume busy")
		n.restart(func(c *syncpod.Config) {
			for _, name := range []string{"a", "b"} {
				c.Parts.Clean = append(c.Parts.Clean, cleanerFunc(func(context.Context, types.UID) error {
					cleaned = append(cleaned, name)
					return fail
				}))
			}
		})
		if err := n.SyncTerminatedPod(t.Context(), testPod(), nil); !errors.Is(err, fail) || len(cleaned) != 2 {
			t.Errorf("error %v after %v; want both tried", err, cleaned)
		}
		fail = nil
		must(t, n.SyncTerminatedPod(t.Context(), testPod(), nil))
	})
}

// K1: a container that could not be stopped is not killed with its sandbox
// before the end of its grace period, but at that end.
func TestK1_ARefusedStopDoesNotCutTheGraceShort(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Times: faults.Always, Err: errBroken})
		ended := syncpod.Termination{Pod: testPod(), Deadline: time.Now().Add(30 * time.Second)}
		for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(5 * time.Second) {
			if err := n.SyncTerminatingPod(t.Context(), ended); err == nil {
				t.Fatalf("ended after %v", time.Since(began))
			}
			n.wantStates("app 0 running")
		}
		_ = n.SyncTerminatingPod(t.Context(), ended) // of the stop that still fails
		n.wantEnded()
		must(t, n.SyncTerminatingPod(t.Context(), ended))
	})
}
