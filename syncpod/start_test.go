package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
)

var (
	errBroken   = status.Error(codes.Unknown, "it is broken")
	errDeadline = status.Error(codes.DeadlineExceeded, "context deadline exceeded")
)

func names(style critest.Model) func(*critest.Config) {
	return func(c *critest.Config) { c.Like = style }
}

// watch fails the test if two instances of a container are alive at the same time,
// including instances that may still start.
func (n *node) watch() {
	n.Helper()
	var mu sync.Mutex
	ids := map[string][]string{}
	n.OnCall(func(_ int, c critest.Call) {
		mu.Lock()
		defer mu.Unlock()
		name := c.PodUID + "/" + c.Container
		if r, ok := c.Response().(*runtimeapi.CreateContainerResponse); ok && c.Err == nil && !slices.Contains(ids[name], r.GetContainerId()) {
			ids[name] = append(ids[name], r.GetContainerId())
		}
		for name, all := range ids {
			var alive []string
			for _, id := range all {
				if n.peek(id) != runtimeapi.ContainerState_CONTAINER_EXITED {
					alive = append(alive, id)
				}
			}
			if len(alive) > 1 {
				n.Errorf("after %v: %d instances of %s are alive", c, len(alive), name)
			}
		}
	})
}

// peek returns a container's state without a call; a removed container counts as exited.
func (n *node) peek(id string) runtimeapi.ContainerState {
	state := runtimeapi.ContainerState_CONTAINER_EXITED
	_ = n.EditContainer(id, func(s *runtimeapi.ContainerStatus) { state = s.State }) // gone
	return state
}

func (n *node) readySandboxes() (ready int) {
	for _, s := range n.status().Sandboxes {
		if s.State == runtime.SandboxReady {
			ready++
		}
	}
	return ready
}

func TestS1_TimedOutSandboxConverges(t *testing.T) {
	for name, style := range map[string]critest.Model{"reserved": critest.Containerd2, "returned": critest.CRIO} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Delay: 6 * time.Minute, IgnoreCancel: true})
				if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrCreatePodSandbox) {
					t.Fatalf("error %v, want %v", err, syncpod.ErrCreatePodSandbox)
				}
				n.settle(testPod(), 10*time.Minute)
				n.wantStates("app 0 running")
				if ready := n.readySandboxes(); ready != 1 {
					t.Errorf("%d sandboxes are ready, want 1\n%v", ready, n.Journal())
				}
			}, names(style))
		})
	}
}

func TestS3_CreatedNeverStartedAndSandboxLost(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever })
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), pod, nil)
		must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectStopped}))
		n.wantStates("app 0 created")
		n.restart()
		n.settle(pod, time.Minute)
		if c := n.current("app"); c.State != runtime.ContainerRunning {
			t.Errorf("app is %v, want it to run\n%v", c.State, n.Journal())
		}
	})
}

func TestS4_SandboxWithoutAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		comes time.Duration
		want  int
	}{"comes late": {3 * time.Second, 1}, "never comes": {faults.Never, 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, IPAfter: tc.comes})
				began := time.Now()
				n.SyncPod(t.Context(), testPod(), nil)
				n.settle(testPod(), time.Minute)
				n.wantStates("app 0 running")
				if started := n.current("app").StartedAt.Sub(began); tc.want == 1 && started > tc.comes+time.Second {
					t.Errorf("started after %v, the address came after %v", started, tc.comes)
				}
				made := n.Journal().Of(critest.RunPodSandbox)
				if len(made) != tc.want || len(made) == 2 && made[1].End.Sub(made[0].Start) != 10*time.Second {
					t.Errorf("want %v sandboxes, the second one ready 10 s after the call for the first:\n%v", tc.want, made)
				}
			})
		})
	}
}

func TestS7_NoNewSandboxBesideAContainerThatDoesNotStop(t *testing.T) {
	for _, m := range []critest.Method{critest.StopContainer, critest.StopPodSandbox} {
		t.Run(string(m), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(), time.Minute)
				must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
				fault := n.Fault(faults.Fault{Match: faults.Match{Method: m}, Times: faults.Always, Err: errBroken})
				if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrKillPodSandbox) || !strings.Contains(err.Error(), "it is broken") {
					t.Fatalf("error %v, want %v and its cause", err, syncpod.ErrKillPodSandbox)
				}
				if n.events.count("FailedKillPod") != 1 || n.events.count("SandboxChanged") != 1 {
					t.Errorf("events %q, want 1 and 1", n.events.all)
				}
				if made := n.Journal().Count(critest.RunPodSandbox); made != 1 {
					t.Fatalf("%d sandboxes were made, want none beside the first", made)
				}
				fault.Remove()
				n.watch()
				n.settle(testPod(), time.Minute)
				n.wantStates("app 0 exited", "app 1 running")
			})
		})
	}
}

// C1: a start that was lost, however it was, never leaves two instances alive.
func TestC1_OneInstance(t *testing.T) {
	for name, fault := range map[string]faults.Fault{
		"start done, answer lost":  {Match: faults.Match{Method: critest.StartContainer}, When: faults.After, Err: errDeadline},
		"start late":               {Match: faults.Match{Method: critest.StartContainer}, When: faults.Midway, Delay: 3 * time.Minute, IgnoreCancel: true},
		"create done, answer lost": {Match: faults.Match{Method: critest.CreateContainer}, When: faults.After, Err: errDeadline},
		"create late":              {Match: faults.Match{Method: critest.CreateContainer}, When: faults.Midway, Delay: 3 * time.Minute, IgnoreCancel: true},
	} {
		for style, names := range map[string]func(*critest.Config){"reserved": names(critest.Containerd2), "returned": names(critest.CRIO)} {
			t.Run(name+"/"+style, func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					n.watch()
					n.Fault(fault)
					n.SyncPod(t.Context(), testPod(), nil)
					n.settle(testPod(), 10*time.Minute)
					time.Sleep(5 * time.Minute)
					n.settle(testPod(), time.Minute)
					if c := n.current("app"); c.State != runtime.ContainerRunning {
						t.Errorf("app is %v, want %v\n%v", c.State, runtime.ContainerRunning, n.Journal())
					}
					for _, c := range n.status().Containers {
						if c.Live() && c.ID != n.current("app").ID {
							t.Errorf("attempt %d is %v, want no live one but the current", c.Attempt, c.State)
						}
					}
				}, names)
			})
		}
	}
}

// S1 (e): a container name that stays reserved without a container does not block the pod,
// whether the runtime rejects the call or lets it hang.
func TestS1_ContainerNameReservedForEver(t *testing.T) {
	for name, style := range map[string]critest.Model{"refused": critest.Containerd2, "waits": critest.CRIO} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, When: faults.Midway, Hang: &faults.Gate{}, IgnoreCancel: true})
				n.settle(testPod(), 30*time.Minute)
				n.wantStates("app 1 running")
				asked := n.Journal().Of(critest.CreateContainer).Where(func(c critest.Call) bool { return c.Attempt == 0 })
				if len(asked) < 3 {
					t.Errorf("given up after %d tries\n%v", len(asked), asked)
				}
			}, names(style))
		})
	}
}

// G1: the image of a container that is not started after all may be
// removed again.
func TestG1_ImagesAreLetGoWhenStartsStopEarly(t *testing.T) {
	const second = "registry.test/second:1"
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("a"), ctr("b")))
		pod.Spec.Containers[1].Image = second
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: "a"}, When: faults.Midway, Hang: &faults.Gate{}})
		ctx := giveUp(t, time.Second)
		if _, err := n.SyncPod(ctx, pod, nil); err == nil {
			t.Fatal("no error although the creation hangs")
		}
		if n.images.Leases().Held(&runtimeapi.Image{RepoTags: []string{second}}) {
			t.Errorf("the image of b is still held\n%v", n.Journal())
		}
	})
}

// G1: the same holds for an image whose pull ends after its caller has left.
func TestG1_LateImagesAreLetGo(t *testing.T) {
	const second = "registry.test/second:1"
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Parts.Images = lateImages{c.Parts.Images, second} })
		pod := testPod(containers(ctr("a"), ctr("b")))
		pod.Spec.Containers[1].Image = second
		ctx := giveUp(t, time.Second)
		if _, err := n.SyncPod(ctx, pod, nil); err == nil {
			t.Fatal("no error although it was given up")
		}
		time.Sleep(time.Minute)
		if n.images.Leases().Held(&runtimeapi.Image{RepoTags: []string{second}}) {
			t.Errorf("the image of b is still held\n%v", n.Journal())
		}
	})
}

// lateImages returns an image only after its caller has left.
type lateImages struct {
	syncpod.Images
	late string
}

func (l lateImages) EnsureImageExists(ctx context.Context, req image.Request) (*image.Image, error) {
	if req.Image == l.late {
		<-ctx.Done()
		time.Sleep(time.Second)
	}
	return l.Images.EnsureImageExists(context.WithoutCancel(ctx), req)
}

func TestC1_StartIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, When: faults.After, Err: errDeadline})
		n.sync(testPod())
		n.wantStates("app 0 running")
		if started := n.Journal().Count(critest.StartContainer); started != 1 {
			t.Errorf("started %d times, want once", started)
		}
	})
}

func TestC1_CreatedIsAdopted(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, When: faults.After, Err: errDeadline})
		n.sync(testPod())
		n.wantStates("app 0 running")
		if made := n.Journal().Count(critest.CreateContainer); made != 1 {
			t.Errorf("created %d times, want once", made)
		}
	})
}

func TestC1_NoStartBesideAnOrphanThatDoesNotStop(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(), nil)
		n.wantStates("app 0 created")
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemoveContainer}, Err: errBroken})
		time.Sleep(time.Minute)
		r, err := n.SyncPod(t.Context(), testPod(), nil)
		if !errors.Is(err, syncpod.ErrKillContainer) || len(r.Failed) != 1 {
			t.Fatalf("error %v, failed %v; want %v", err, r.Failed, syncpod.ErrKillContainer)
		}
		n.wantStates("app 0 created")
		n.settle(testPod(), time.Minute)
		n.wantStates("app 1 running")
	})
}

// C1: a container with the requested name, but with another spec or in another sandbox, is not started in
// place of the requested one.
func TestC1_OnlyRequestedContainersAreAdopted(t *testing.T) {
	for name, change := range map[string]func(n *node, pod *v1.Pod){
		"spec": func(_ *node, pod *v1.Pod) { pod.Spec.Containers[0].Image += "2" },
		"sandbox": func(n *node, _ *v1.Pod) {
			n.Must(n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod()
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
				n.SyncPod(t.Context(), pod, nil)
				before := n.current("app").ID
				change(n, pod)
				// The runtime hides the container when the plan is made, and shows it later.
				stale := n.status()
				stale.Containers = nil
				n.restart()
				_, err := n.SyncPod(t.Context(), pod, stale)
				must(t, err)
				n.wantStates("app 0 running")
				if app := n.current("app"); app.ID == before || app.SandboxID != n.status().ActiveSandbox().ID {
					t.Errorf("what was there is taken for what was asked for\n%v", n.Journal())
				}
			})
		})
	}
}

// C1: what holds the name and runs gets its stop signal before it is removed.
func TestC1_HolderThatRunsIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.watch()
		stale := n.status()
		stale.Containers = nil
		n.restart()
		_, err := n.SyncPod(t.Context(), testPod(), stale)
		must(t, err)
		n.wantStates("app 0 running")
		if stopped := n.Journal().Of(critest.StopContainer); len(stopped) != 1 || stopped[0].Err != nil {
			t.Errorf("stops of what held the name:\n%v", stopped)
		}
	})
}

// C1: if the container with the requested name does not stop or cannot be listed, it is not removed, and no container is
// created next to it.
func TestC1_HolderThatStays(t *testing.T) {
	for _, m := range []critest.Method{critest.StopContainer, critest.ListContainers} {
		t.Run(string(m), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(testPod(), time.Minute)
				stale := n.status()
				stale.Containers = nil
				n.restart()
				n.Fault(faults.Fault{Match: faults.Match{Method: m}, Times: faults.Always, Err: errBroken})
				before := len(n.Journal())
				_, err := n.SyncPod(t.Context(), testPod(), stale)
				if !errors.Is(err, syncpod.ErrCreateContainer) || !errors.Is(err, cri.ErrNameReserved) || !strings.Contains(err.Error(), "it is broken") {
					t.Errorf("error %v, want error %v and error %v and %q in it", err, syncpod.ErrCreateContainer, cri.ErrNameReserved, "it is broken")
				}
				if j := n.Journal().After(before); j.Count(critest.RemoveContainer) != 0 || j.Count(critest.CreateContainer) != 1 {
					t.Errorf("calls, want 0 and 1\n%v", j)
				}
			})
		})
	}
}

// C1: a start call without an answer does not count if the container has been removed.
func TestC1_StartedContainerDisappears(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, When: faults.After, Err: errDeadline})
		n.OnCall(func(_ int, c critest.Call) {
			if c.Method == critest.StartContainer {
				_ = n.Remove(c.ContainerID)
			}
		})
		if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrRunContainer) {
			t.Errorf("error %v", err)
		}
	})
}

func TestC2_AttemptsGrowDespiteTheClock(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.exit("app", 1)
		must(t, n.EditContainer(n.current("app").ID.ID, func(s *runtimeapi.ContainerStatus) {
			s.CreatedAt += int64(time.Hour)
		}))
		n.settle(testPod(), time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
		n.exit("app", 1)
		n.settle(testPod(), time.Minute)
		n.wantStates("app 0 exited", "app 1 exited", "app 2 running")
	})
}

func TestC2_LostNameIsAbandoned(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.HoldName("app_web_default_" + podUID + "_0")
		n.settle(testPod(), time.Hour)
		n.wantStates("app 1 running")
		if tries := n.Journal().Count(critest.CreateContainer); tries != 4 {
			t.Errorf("%d creations, want three refused and one that works", tries)
		}
	})
}

func TestC2_HolderOfTheNameIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.exit("app", 1)
		// The runtime hides the container when the plan is made, and shows it later.
		stale := n.status()
		stale.Containers = nil
		n.restart()
		_, err := n.SyncPod(t.Context(), testPod(), stale)
		must(t, err)
		n.wantStates("app 0 running")
	})
}

// C2: an answer that was lost does not cost the instance before its record.
func TestC2_OtherAttemptsAreNotInTheWay(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		n.exit("app", 1)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, When: faults.After, Err: errDeadline})
		n.settle(testPod(), time.Minute)
		n.wantStates("app 0 exited", "app 1 running")
	})
}

// C2: also the number of an instance that never ran is not used again.
func TestC2_RemovedInstancesCount(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), testPod(), nil)
		n.sync(testPod()) // clears it, and waits
		n.wantStates()
		n.settle(testPod(), time.Minute)
		n.wantStates("app 1 running")
	})
}

// C2: the same holds for a container that was removed before any inspection.
func TestC2_InstancesNeverSeenCount(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.sync(testPod())
		must(t, n.Remove(n.current("app").ID.ID))
		n.settle(testPod(), time.Minute)
		n.wantStates("app 1 running")
	})
}

// C2: the same holds for a container that a later agent has removed with its sandbox.
func TestC2_InstancesSeenCount(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("one", "true")))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer, Container: "app"}, Err: errBroken})
		n.sync(pod)
		synctest.Wait()
		n.SyncPod(t.Context(), pod, nil)
		n.wantStates("app 0 created", "one 0 exited")
		must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectStopped}))
		n.restart()
		n.settle(pod, time.Minute)
		n.wantStates("app 1 running", "one 0 exited", "one 1 exited")
	})
}

func TestC3_AttemptsGoOnAfterTheRuntimeHasForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.logs.last["app"] = 4
		n.settle(testPod(), time.Minute)
		n.wantStates("app 5 running")
		must(t, n.Remove(n.current("app").ID.ID))
		n.settle(testPod(), time.Minute)
		n.wantStates("app 6 running")
	})
}

func postStart(c v1.Container, command ...string) v1.Container {
	c.Lifecycle = &v1.Lifecycle{PostStart: exec(command...)}
	return c
}

func TestC7_HungPostStartHook(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(postStart(ctr("app"), "sleep", "100000"), ctr("other")))
		began := time.Now()
		r, err := n.SyncPod(t.Context(), pod, nil)
		if !errors.Is(err, syncpod.ErrPostStartHook) || !errors.Is(err, syncpod.ErrHookTimeout) {
			t.Fatalf("error %v, want %v", err, syncpod.ErrHookTimeout)
		}
		if took := time.Since(began); took > 2*time.Minute+2*time.Second {
			t.Errorf("took %v, longer than the hook may", took)
		}
		n.wantStates("app 0 exited", "other 0 running")
		if n.events.count("FailedPostStartHook spec.containers{app}") != 1 || r.NextTry.IsZero() {
			t.Errorf("events %q, next try %v", n.events.all, r.NextTry)
		}
	})
}

func TestC7_DeletionEndsAHungPostStartHook(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		if _, err := n.SyncPod(ctx, testPod(containers(postStart(ctr("app"), "sleep", "100000"))), nil); err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("returned after %v, want 5s", took)
		}
		n.wantStates("app 0 running") // the caller that has cancelled decides about the container
		if n.events.count("FailedPostStartHook") != 0 {
			t.Errorf("events %q, want 0", n.events.all)
		}
	})
}

func TestC7_FailedPostStartHookKills(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(postStart(ctr("app"), "false")))
		if _, err := n.SyncPod(t.Context(), pod, nil); !errors.Is(err, syncpod.ErrPostStartHook) {
			t.Fatalf("error %v", err)
		}
		n.wantStates("app 0 exited")
	})
}

func TestC6_HookOfALateStartIsRun(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(postStart(ctr("app"), "touch", "/hooked")))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, When: faults.After, Err: status.Error(codes.Unavailable, "EOF")})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Skip: 1, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), pod, nil); err == nil {
			t.Fatalf("the start is known to have worked\n%v", n.Journal())
		}
		if n.Journal().Count(critest.ExecSync) != 0 {
			t.Fatal("the hook has run already")
		}
		n.settle(pod, time.Minute)
		n.wantStates("app 0 running")
		if ran := n.Journal().Count(critest.ExecSync); ran != 1 {
			t.Errorf("the hook ran %d times, want once\n%v", ran, n.Journal())
		}
	})
}

func TestC9_KillsAreParallelAndAllAttempted(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(containers(ctr("a"), ctr("b"))), time.Minute)
		changed := testPod(containers(ctr("a"), ctr("b")))
		for i := range changed.Spec.Containers {
			changed.Spec.Containers[i].Image += "2"
		}
		must(t, n.SetIgnoreSignals(n.current("a").ID.ID, faults.IgnoreSignals{Term: true}))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer, Container: "b"}, Times: faults.Always, Err: errBroken})
		before := len(n.Journal())
		_, err := n.SyncPod(t.Context(), changed, nil)
		if !errors.Is(err, syncpod.ErrKillContainer) {
			t.Errorf("error %v, want %v", err, syncpod.ErrKillContainer)
		}
		stops := n.Journal().After(before).Of(critest.StopContainer)
		if len(stops) < 2 || !stops[0].Start.Equal(stops[1].Start) {
			t.Errorf("stops are not simultaneous:\n%v", stops)
		}
		n.wantStates("a 0 exited", "a 1 running", "b 0 running")
	})
}

func TestI2_InitIsDoneAgainInANewSandbox(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("one", "true"), ctr("two", "true")))
		ctx, crash := context.WithCancel(t.Context())
		defer crash()
		n.OnCall(func(_ int, c critest.Call) {
			if c.Method == critest.CreateContainer && c.Container == "app" {
				crash()
			}
		})
		for ctx.Err() == nil {
			n.SyncPod(ctx, pod, nil)
			time.Sleep(time.Second)
		}
		must(t, n.Restart(faults.Restart{Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}))
		n.restart()
		before := len(n.Journal())
		n.settle(pod, time.Minute)
		if got, want := startedNames(n.Journal().After(before)), []string{"one", "two", "app"}; !slices.Equal(got, want) {
			t.Errorf("started %v in the new sandbox, want %v", got, want)
		}
	})
}

func startedNames(j critest.Journal) (all []string) {
	for _, c := range j.Of(critest.StartContainer) {
		if c.Err == nil {
			all = append(all, c.Container)
		}
	}
	return all
}

func TestI3_CreatedInitContainerIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("one", "true")))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), pod, nil); !errors.Is(err, syncpod.ErrRunContainer) {
			t.Fatalf("error %v, want %v", err, syncpod.ErrRunContainer)
		}
		n.restart()
		n.sync(pod)
		synctest.Wait()
		n.wantStates("one 1 exited")
	})
}

func TestW2_CancelEndsAPullAndACreate(t *testing.T) {
	for _, method := range []critest.Method{critest.PullImage, critest.CreateContainer, critest.StartContainer, critest.RunPodSandbox} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/deaf %v", method, deaf), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					gate := &faults.Gate{}
					n.Fault(faults.Fault{Match: faults.Match{Method: method}, When: faults.Midway, Hang: gate, IgnoreCancel: deaf})
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Minute, cancel)
					began := time.Now()
					if _, err := n.SyncPod(ctx, testPod(containers(ctr("app"), ctr("b"))), nil); err == nil {
						t.Error("no error")
					}
					if took := time.Since(began); took != time.Minute {
						t.Errorf("returned after %v, want at once when it was cancelled", took)
					}
					if n.events.count("Failed") != 0 {
						t.Errorf("events of a failure: %q", n.events.all)
					}
					before := len(n.Journal())
					gate.Open()
					time.Sleep(time.Hour)
					if late := n.Journal().After(before).Changes(); len(late) > 0 {
						t.Errorf("after the end of the context:\n%v", late)
					}
				})
			})
		}
	}
}

func TestW2_ContainerOfACancelledCreateIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, When: faults.After, Hang: &faults.Gate{}})
		ctx := giveUp(t, time.Minute)
		n.SyncPod(ctx, testPod(), nil)
		n.wantStates()
	})
}

// W2, second half: a container that starts late is found when the pod terminates.
func TestW2_LateCreateIsRemovedByTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, When: faults.Midway, Delay: 90 * time.Second, IgnoreCancel: true})
		ctx := giveUp(t, time.Minute)
		n.SyncPod(ctx, testPod(), nil)
		time.Sleep(time.Minute)
		n.wantStates("app 0 created")
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}))
		n.wantStates()
	})
}

func TestG1_ImageIsHeldUntilTheContainerIsCreated(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var leases *image.Leases
		n.restart(func(c *syncpod.Config) {
			pulls, err := image.New(image.Config{Settings: image.Settings{Runtime: n.Client}})
			must(t, err)
			t.Cleanup(pulls.Wait)
			c.Parts.Images, leases = pulls, pulls.Leases()
		})
		var held, after bool
		n.OnCall(func(_ int, c critest.Call) {
			img := &runtimeapi.Image{Id: "x", RepoTags: []string{"registry.test/app:1"}}
			switch c.Method {
			case critest.CreateContainer:
				held = leases.Held(img)
			case critest.StartContainer:
				after = leases.Held(img)
			}
		})
		n.sync(testPod())
		if !held || after {
			t.Errorf("held while created %v, after that %v; want true, false", held, after)
		}
	})
}

func TestG3_ImagesOfAPodArePulledSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.sync(testPod(containers(ctr("a"), ctr("b"), ctr("c"))))
		pulls := n.Journal().Of(critest.PullImage)
		if pulls.MaxConcurrent() != 3 {
			t.Errorf("%d at once, want 3\n%v", pulls.MaxConcurrent(), pulls)
		}
		if got := startedNames(n.Journal()); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("started %v, want the order of the spec", got)
		}
	}, func(c *critest.Config) {
		c.Latency = map[critest.Method]time.Duration{critest.PullImage: time.Second}
	})
}

func TestEventsHaveNoIDs(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), pod, nil)
		n.exit("b", 1)
		sandbox := n.status().Sandboxes[0].ID
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: "b"}, Err: status.Error(codes.Unknown, "no place in "+sandbox)})
		n.SyncPod(t.Context(), pod, nil)
		n.settle(pod, time.Minute)
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}))
		all := strings.Join(n.events.all, "\n")
		for _, want := range []string{"Pulling spec.containers{app}", "Pulled spec.containers{app}", "Created spec.containers{app}", "Started spec.containers{b} Container started",
			"Failed spec.containers{app} Error: ", "Failed spec.containers{b} Error: no place in of the pod (Unknown)", "Killing spec.containers{b} Stopping container b"} {
			if !strings.Contains(all, want) {
				t.Errorf("no event %q in\n%s", want, all)
			}
		}
		for _, c := range n.Journal() {
			if c.ContainerID != "" && strings.Contains(all, c.ContainerID) || c.SandboxID != "" && strings.Contains(all, c.SandboxID) {
				t.Errorf("the ID of a container or sandbox is in\n%s", all)
			}
		}
	})
}
