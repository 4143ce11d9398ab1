package syncpod_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container/env"
)

// drive syncs a pod for a while as a worker does: at the requested time, at once
// when a container has exited, and otherwise every second.
func (n *node) drive(pod *v1.Pod, d time.Duration) {
	n.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		r, _ := n.SyncPod(n.Context(), pod, nil)
		synctest.Wait()
		switch {
		case !r.NextTry.IsZero():
			time.Sleep(time.Until(r.NextTry))
		case r.Plan.NoOp():
			time.Sleep(time.Second)
		}
	}
}

// gaps are the times between calls of a method.
func (n *node) gaps(m critest.Method) (all []time.Duration) {
	calls := n.Journal().Of(m)
	for i := 1; i < len(calls); i++ {
		all = append(all, calls[i].Start.Sub(calls[i-1].Start))
	}
	return all
}

func TestB1_CrashesAreDelayedByTheSequence(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.drive(testPod(containers(ctr("app", "false"))), 30*time.Minute)
		var want []time.Duration
		for _, s := range []int{0, 10, 20, 40, 80, 160, 300, 300, 300} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if got := n.gaps(critest.StartContainer); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("gaps %v, want %v", got, want)
		}
		if n.events.count("BackOff spec.containers{app} Back-off restarting failed container app in pod web_default("+podUID+")") == 0 {
			t.Errorf("events %q, want a BackOff", n.events.all)
		}
	})
}

func TestB1_BackOffIsNoErrorAndHasATime(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app", "false"), ctr("b")))
		n.sync(pod)
		synctest.Wait()
		n.sync(pod)
		synctest.Wait()
		crashed := time.Now()
		r := n.sync(pod)
		if want := crashed.Add(10 * time.Second); !r.NextTry.Equal(want) {
			t.Errorf("next try at %v, want %v", r.NextTry, want)
		}
		if len(r.Failed) != 1 || !errors.Is(r.Failed[0], syncpod.ErrCrashLoopBackOff) || r.Failed[0].Container.Name != "app" {
			t.Errorf("failed %v, want only error %v of %q", r.Failed, syncpod.ErrCrashLoopBackOff, "app")
		}
		if got := n.report.container("app").State.Waiting; got == nil || got.Reason != "CrashLoopBackOff" {
			t.Errorf("reported %v, want it to wait because of %q", got, "CrashLoopBackOff")
		}
	})
}

// The back-off also applies if the container's exit ends its sandbox, as in a virtual machine.
func TestB1_ANewSandboxDoesNotEndTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.OnCall(func(_ int, c critest.Call) {
			if c.Method == critest.StartContainer {
				_ = n.EditSandbox(c.SandboxID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY })
			}
		})
		n.drive(testPod(containers(ctr("app", "false"))), 30*time.Minute)
		if gaps := n.gaps(critest.StartContainer); len(gaps) < 6 || len(gaps) > 14 || !slices.IsSorted(gaps) {
			t.Errorf("gaps %v, want 6 to 14 that do not become shorter", gaps)
		}
	})
}

func TestB1_AChangeOfResourcesEndsTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.drive(testPod(containers(ctr("app", "false"))), 3*time.Minute)
		before := len(n.Journal())
		n.sync(testPod(containers(ctr("app", "false")), func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
		}))
		if n.Journal().After(before).Count(critest.StartContainer) != 1 {
			t.Error("it was not started at once")
		}
	})
}

// B2: a start that fails before the container runs is retried with back-off, and each
// attempt pulls at most once.
// A failed pull is soon reported as ImagePullBackOff, because operators search for it.
func TestB2_FailedPullIsSoonReportedAsWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Err: errBroken})
		pod := testPod()
		for range 3 {
			r, err := n.SyncPod(t.Context(), pod, nil)
			if !errors.Is(err, image.ErrImagePull) || time.Until(r.NextTry) > 5*time.Second {
				t.Fatalf("%v, next in %v, want error %v and at most %v", err, time.Until(r.NextTry), image.ErrImagePull, 5*time.Second)
			}
			time.Sleep(time.Until(r.NextTry))
			r, err = n.SyncPod(t.Context(), pod, nil)
			if err != nil || len(r.Failed) != 1 || !errors.Is(r.Failed[0], syncpod.Reason(image.ErrImagePullBackOff)) {
				t.Fatalf("%v, %v, want only error %v", err, r.Failed, syncpod.Reason(image.ErrImagePullBackOff))
			}
			time.Sleep(time.Until(r.NextTry))
		}
		if pulls := n.Journal().Count(critest.PullImage); pulls != 3 {
			t.Errorf("%d pulls, want 3", pulls)
		}
	})
}

func TestB2_FailuresBeforeTheStartBackOff(t *testing.T) {
	for name, tc := range map[string]struct {
		fault faults.Fault
		pod   func(*v1.Pod)
		want  error
	}{
		"config": {
			pod: func(p *v1.Pod) {
				p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "X", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{Key: "k"}}}}
			},
			want: syncpod.ErrCreateContainerConfig,
		},
		"create":  {fault: faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Times: faults.Always, Err: errBroken}, want: syncpod.ErrCreateContainer},
		"start":   {fault: faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Times: faults.Always, Err: errBroken}, want: syncpod.ErrRunContainer},
		"sandbox": {fault: faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Err: errBroken}, want: syncpod.ErrCreatePodSandbox},
		"image":   {fault: faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Err: errBroken}, want: syncpod.Reason("ErrImagePull")},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(func(p *v1.Pod) { p.Spec.Containers[0].ImagePullPolicy = v1.PullAlways })
				if tc.pod != nil {
					tc.pod(pod)
				} else {
					n.Fault(tc.fault)
				}
				_, err := n.SyncPod(t.Context(), pod, nil)
				if !errors.Is(err, tc.want) {
					t.Fatalf("error %v, want %v", err, tc.want)
				}
				method := critest.PullImage
				if name == "sandbox" {
					method = critest.RunPodSandbox
				}
				n.drive(pod, time.Hour)
				gaps := n.gaps(method)
				if !slices.IsSorted(gaps) || len(gaps) < 10 || len(gaps) > 18 || gaps[0] != 10*time.Second || gaps[len(gaps)-1] != 300*time.Second {
					t.Errorf("gaps %v, want them to grow from 10s to 300s", gaps)
				}
			})
		})
	}
}

func TestB2_ReasonIsKeptWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: errBroken})
		_, err := n.SyncPod(t.Context(), testPod(), nil)
		step, ok := errors.AsType[*syncpod.StepError](err)
		if !ok || step.Step != "create" || step.Container.Name != "app" || step.NotBefore.IsZero() {
			t.Fatalf("error %+v, want step %v of %q with the time of its retry", err, "create", "app")
		}
		r := n.sync(testPod())
		if len(r.Failed) != 1 || !r.Failed[0].Waits || !errors.Is(r.Failed[0], syncpod.ErrCreateContainer) || !strings.Contains(r.Failed[0].Error(), "it is broken") {
			t.Errorf("failed %v, want one step that waits, with error %v and %q in it", r.Failed, syncpod.ErrCreateContainer, "it is broken")
		}
		n.settle(testPod(), 15*time.Second)
		if r := n.sync(testPod()); len(r.Failed) != 0 || n.report.container("app").State.Running == nil {
			t.Errorf("failed %v, reported %v, after it has worked", r.Failed, n.report.last())
		}
	})
}

// An unavailable runtime causes no back-off of a pod.
func TestB2_UnavailableRuntimeCausesNoBackOff(t *testing.T) {
	for code, want := range map[codes.Code]error{codes.Unavailable: cri.ErrUnavailable, codes.Canceled: cri.ErrCanceled} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: status.Error(code, "EOF")})
				if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, want) {
					t.Fatalf("error %v", err)
				}
				n.sync(testPod())
				n.wantStates("app 0 running")
			})
		})
	}
}

// If the same call keeps failing with Unavailable while other calls succeed, the call itself crashes the runtime. Only the
// first such failure causes no back-off, until the call has succeeded.
func TestB2_RuntimeUnavailableForOneStepBacksOff(t *testing.T) {
	for _, method := range []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer} {
		t.Run(string(method), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				away := faults.Fault{Match: faults.Match{Method: method}, Times: faults.Always, Delay: 100 * time.Millisecond, Err: status.Error(codes.Unavailable, "ttrpc: closed")}
				n.Fault(away)
				n.drive(testPod(), time.Hour)
				gaps := slices.DeleteFunc(n.gaps(method), func(gap time.Duration) bool { return gap < time.Second }) // the answer may be made sure of at once
				if !slices.IsSorted(gaps) || len(gaps) < 10 || len(gaps) > 18 || gaps[0].Round(time.Second) != 10*time.Second || gaps[len(gaps)-1].Round(time.Second) != 300*time.Second {
					t.Errorf("gaps %v, want them to grow from 10s to 300s", gaps)
				}
				if calls := n.Journal().Count(method); calls > 2*(len(gaps)+2) {
					t.Errorf("%d calls at %d times", calls, len(gaps)+2)
				}
			})
		})
	}
}

func TestB2_SuccessExcusesTheNextAbsence(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod()
		for range 3 {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: status.Error(codes.Unavailable, "EOF")})
			if _, err := n.SyncPod(t.Context(), pod, nil); !errors.Is(err, cri.ErrUnavailable) {
				t.Fatalf("error %v, want %v", err, cri.ErrUnavailable)
			}
			n.settle(pod, 30*time.Minute)
			must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
			time.Sleep(time.Minute) // longer than the back-off of replaced sandboxes
		}
		for _, gap := range n.gaps(critest.StartContainer) {
			if gap > time.Second && gap < time.Minute {
				t.Errorf("a wait of %v", gap)
			}
		}
	})
}

// B2: an earlier sandbox of the pod does not shorten the back-off of the next one.
func TestB2_AnotherSandboxBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Err: errBroken})
		for end := time.Now().Add(time.Minute + 20*time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			n.SyncPod(t.Context(), testPod(), nil)
		}
		if gaps := n.gaps(critest.RunPodSandbox)[1:]; !slices.Equal(gaps, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second}) {
			t.Errorf("tried %v apart", gaps)
		}
		if n.events.count("FailedCreatePodSandBox  Failed to create pod sandbox: ") != 4 {
			t.Errorf("events %q, want 4", n.events.all)
		}
	})
}

// B2: after a success, the back-off starts with the shortest wait.
func TestB2_SuccessEndsTheBackOff(t *testing.T) {
	for m, lose := range map[critest.Method]func(n *node){
		critest.CreateContainer: func(n *node) { n.Must(n.Remove(n.current("app").ID.ID)) },
		critest.RunPodSandbox: func(n *node) {
			n.Must(n.EditSandbox(n.status().LatestSandbox().ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		},
	} {
		t.Run(string(m), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: m}, Times: 3, Err: errBroken})
				n.settle(testPod(), 5*time.Minute)
				lose(n)
				n.Fault(faults.Fault{Match: faults.Match{Method: m}, Err: errBroken})
				r, err := n.SyncPod(t.Context(), testPod(), nil)
				failed, ok := errors.AsType[*syncpod.StepError](err)
				if !ok || time.Until(failed.NotBefore) != 10*time.Second {
					t.Errorf("error %v, result %+v; want a wait of 10s", err, r)
				}
			})
		})
	}
}

// B2: a cancellation by the agent does not count as a failure of the step.
func TestB2_GivingUpCostsNoWait(t *testing.T) {
	for _, m := range []critest.Method{critest.RunPodSandbox, critest.PullImage, critest.CreateContainer} {
		t.Run(string(m), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: m}, When: faults.Before, Hang: &faults.Gate{}})
				ctx := giveUp(t, time.Minute)
				if _, err := n.SyncPod(ctx, testPod(), nil); err == nil {
					t.Error("no error")
				}
				n.sync(testPod())
				n.wantStates("app 0 running")
			})
		})
	}
}

func TestSecretsDoNotReachEventsAndErrors(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		const secret = "hunter2"
		n.restart(func(c *syncpod.Config) { c.Objects.Sources = env.Sources{Secrets: oneSecret(secret)} })
		pod := testPod(func(p *v1.Pod) {
			ref := func(key string) *v1.EnvVarSource {
				return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "s"}, Key: key}}
			}
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: ref("password")}, {Name: "B", ValueFrom: ref("missing")}}
		})
		_, err := n.SyncPod(t.Context(), pod, nil)
		if !errors.Is(err, syncpod.ErrCreateContainerConfig) {
			t.Fatalf("error %v", err)
		}
		if all := err.Error() + strings.Join(n.events.all, ""); strings.Contains(all, secret) {
			t.Errorf("the secret is in %s", all)
		}
	})
}

// If several steps wait, the next sync is at the end of the first back-off.
func TestNextTryIsTheFirst(t *testing.T) {
	for name, order := range map[string][]string{"in the order of the spec": {"a", "b"}, "in the other": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(containers(ctr("a"), ctr("b")))
				n.settle(pod, time.Minute)
				var first time.Time
				for _, container := range order {
					for range 2 {
						time.Sleep(time.Second)
						n.exit(container, 1)
						r := n.sync(pod)
						if first.IsZero() {
							first = r.NextTry
						} else if !r.NextTry.Equal(first) {
							t.Errorf("next try at %v, want %v", r.NextTry, first)
						}
					}
				}
				if first.IsZero() {
					t.Error("no next try")
				}
			})
		})
	}
}

// A step that may be retried at any time does not remove another step's retry time.
func TestNextTryWithoutAScheduledOne(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: "a"}, Err: errBroken})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: "b"}, Err: status.Error(codes.Unavailable, "gone")})
		r, err := n.SyncPod(t.Context(), testPod(containers(ctr("a"), ctr("b"))), nil)
		if err == nil || len(r.Failed) != 2 || time.Until(r.NextTry) != 10*time.Second {
			t.Errorf("error %v, next try in %v, want 10s", err, time.Until(r.NextTry))
		}
	})
}

// B1: a container whose liveness probe fails repeatedly gets the same back-off as a crashing one.
func TestB1_FailedProbesAreCrashes(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		app := ctr("app")
		app.LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: new(int64(1))}
		pod, results := testPod(containers(app)), probes{}
		n.restart(func(c *syncpod.Config) { c.Parts.Probes = results })
		for begin := time.Now(); time.Since(begin) < 10*time.Minute; time.Sleep(time.Second) {
			if _, err := n.SyncPod(t.Context(), pod, nil); err != nil {
				t.Fatal(err)
			}
			if c := n.current("app"); c.State == runtime.ContainerRunning {
				results[c.ID] = actions.ProbeResults{Liveness: actions.ProbeFailure}
			}
		}
		var waits []time.Duration
		all := n.Processes()
		for i, p := range all[1:] {
			waits = append(waits, p.Started.Sub(all[i].Ended).Round(5*time.Second))
		}
		want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second}
		if len(waits) < len(want) || !slices.Equal(waits[:len(want)], want) {
			t.Errorf("waits %v, want %v", waits, want)
		}
	})
}
