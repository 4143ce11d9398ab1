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
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container"
	hook "github.com/podsync/podsync/syncpod/lifecycle/handler"
)

// The failures of a result do not change after a later success.
func TestResultsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: errBroken})
		first, _ := n.SyncPod(t.Context(), testPod(), nil)
		second := n.sync(testPod())
		if len(first.Failed) != 1 || first.Failed[0].Waits || len(second.Failed) != 1 || !second.Failed[0].Waits {
			t.Errorf("failed %+v, then %+v", first.Failed, second.Failed)
		}
	})
}

// failing are parts; one of them fails.
type failing struct {
	directory, attempts, mounts error
}

func (f failing) MakeDirectory(string, string) error { return f.directory }

func (f failing) LastAttempt(string, string) (uint32, bool, error) { return 0, false, f.attempts }

func (f failing) Mounts(context.Context, container.MountRequest) (container.Mounts, error) {
	return container.Mounts{}, f.mounts
}

func TestNoVolumeIsMadeFromUnreadySources(t *testing.T) {
	for name, tc := range map[string]struct {
		want  syncpod.Reason
		parts failing
	}{
		"directory of logs": {syncpod.ErrCreateContainer, failing{directory: errBroken}},
		"attempts of logs":  {syncpod.ErrCreateContainerConfig, failing{attempts: errBroken}},
		"mounts":            {syncpod.ErrCreateContainerConfig, failing{mounts: errBroken}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				want := tc.want
				n.restart(func(c *syncpod.Config) {
					c.Parts.Logs, c.Parts.Mounts = tc.parts, tc.parts
				})
				_, err := n.SyncPod(t.Context(), testPod(), nil)
				if j := n.Journal(); !errors.Is(err, want) || !errors.Is(err, errBroken) || j.Count(critest.CreateContainer) != 0 || j.Count(critest.StartContainer) != 0 {
					t.Errorf("error %v, want %v\n%v", err, want, j)
				}
			})
		})
	}
}

// What an event says of a container that cannot be made has no identifier in it.
func TestFailedCreateIsReportedWithoutIDs(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")))
		n.settle(pod, time.Minute)
		n.exit("app", 1)
		sandbox, other := n.status().Sandboxes[0].ID, n.current("b").ID.ID
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: errors.New("sandbox " + sandbox + " is busy with " + other)})
		n.drive(pod, time.Minute)
		if n.events.count(sandbox)+n.events.count(other) != 0 || n.events.count("Error: ") != 1 || n.events.count("is busy with b") != 1 {
			t.Errorf("events %q, want 0 and 1 and 1", n.events.all)
		}
	})
}

// C6: if a container's handler has failed and the container could not be stopped,
// the handler is run again. Its failure has a separate event.
func TestC6_FailedHandlerOfARunningContainer(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(postStart(ctr("app"), "false")))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), pod, nil); !strings.Contains(err.Error(), "exit code 1") || !strings.Contains(err.Error(), "it is broken") {
			t.Errorf("error %v, want both causes", err)
		}
		r, err := n.SyncPod(t.Context(), pod, nil)
		if !errors.Is(err, syncpod.ErrPostStartHook) || len(r.Failed) != 1 || r.Failed[0].Container.Name != "app" || n.hooks.calls != 2 {
			t.Errorf("error %v, failed %+v; the handler was run %d times, want twice", err, r.Failed, n.hooks.calls)
		}
		if n.events.count("FailedPostStartHook spec") != 2 || n.events.count("Error: ") != 0 {
			t.Errorf("events %q, want 2 and 0", n.events.all)
		}
	})
}

// C6: the handler of a container that must stop is not run.
func TestC6_NoHandlerForARemovedContainer(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(recorded(dir))
		pod := testPod(containers(postStart(ctr("app"), "true")))
		n.crashDuring(critest.StartContainer, "app", func(ctx context.Context) { n.SyncPod(ctx, pod, nil) }, recorded(dir))
		old := n.current("app").ID.ID
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: errBroken})
		pod.Spec.Containers[0].Image = "registry.test/app:2"
		n.SyncPod(t.Context(), pod, nil)
		for _, c := range n.Journal().Of(critest.ExecSync) {
			if c.ContainerID == old {
				t.Errorf("a handler was run: %v", c)
			}
		}
	})
}

// What must not run as root is not made with root as its user.
func TestNonRoot(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		c := ctr("app")
		c.SecurityContext = &v1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}
		_, err := n.SyncPod(t.Context(), testPod(containers(c)), nil)
		if !errors.Is(err, syncpod.ErrCreateContainerConfig) || n.Journal().Count(critest.CreateContainer) != 0 {
			t.Errorf("error %v, want error %v and 0\n%v", err, syncpod.ErrCreateContainerConfig, n.Journal())
		}
	})
}

// A runtime that answers without an ID has made nothing that could be started.
func TestCreatedWithoutAnID(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Client = n.calling(nameless{c.Client}) })
		if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, syncpod.ErrCreateContainer) || n.Journal().Count(critest.StartContainer) != 0 {
			t.Errorf("error %v, want error %v and 0\n%v", err, syncpod.ErrCreateContainer, n.Journal())
		}
	})
}

// nameless returns no container IDs.
type nameless struct {
	runtimeapi.RuntimeServiceClient
}

func (nameless) CreateContainer(context.Context, *runtimeapi.CreateContainerRequest, ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	return &runtimeapi.CreateContainerResponse{}, nil
}

// An ephemeral container sees the processes of its target if that runs.
func TestTargetOfAnEphemeralContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		target string
		want   bool
	}{"none": {"", false}, "runs": {"b", true}, "has ended": {"done", false}, "is unknown": {"other", false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(inits(ctr("done", "true")), containers(ctr("app"), ctr("b")))
				n.settle(pod, time.Minute)
				want := ""
				if tc.want {
					want = n.current(tc.target).ID.ID
				}
				ephemeral("debug", "true")(pod)
				pod.Spec.EphemeralContainers[0].TargetContainerName = tc.target
				n.settle(pod, time.Minute)
				asked := n.Journal().Container("debug").Of(critest.CreateContainer)[0].Request().(*runtimeapi.CreateContainerRequest)
				options := asked.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions()
				if options.GetTargetId() != want || (options.GetPid() == runtimeapi.NamespaceMode_TARGET) != tc.want {
					t.Errorf("PID namespace %v of %q, want that of %q", options.GetPid(), options.GetTargetId(), want)
				}
				n.exit("app", 1)
				n.settle(pod, time.Minute)
				again := n.Journal().Container("app").Of(critest.CreateContainer)[1].Request().(*runtimeapi.CreateContainerRequest)
				if id := again.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetTargetId(); id != "" {
					t.Errorf("app sees the processes of %q", id)
				}
			})
		})
	}
}

// Failures of images are reported with a kubelet's events.
func TestEventsOfImages(t *testing.T) {
	for want, change := range map[string]func(*node, *v1.Container){
		`ErrImageNeverPull spec.containers{app} Container image "registry.test/app:1" is not present with pull policy of Never`: func(_ *node, c *v1.Container) { c.ImagePullPolicy = v1.PullNever },
		`InspectFailed spec.containers{app} Failed to apply default image tag "registry.test/APP:1": `:                          func(_ *node, c *v1.Container) { c.Image = "registry.test/APP:1" },
		`Failed spec.containers{app} Failed to pull image "registry.test/app:1": `: func(n *node, _ *v1.Container) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Err: errBroken})
		},
		`BackOff spec.containers{app} Back-off pulling image "registry.test/app:1"` + "\n": func(n *node, _ *v1.Container) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Err: errBroken})
			n.SyncPod(n.Context(), testPod(), nil)
		},
		`Pulled spec.containers{app} Successfully pulled image "registry.test/app:1" in 3s (3s including waiting). Image size: 1048576 bytes.`: func(n *node, _ *v1.Container) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Delay: 3 * time.Second})
		},
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod()
				change(n, &pod.Spec.Containers[0])
				n.SyncPod(t.Context(), pod, nil)
				if all := strings.Join(n.events.all, "\n") + "\n"; !strings.Contains(all, want) {
					t.Errorf("events %q, want %q", n.events.all, want)
				}
			})
		})
	}
}

// A handler for HTTPS that got an answer in plain HTTP is reported once it has succeeded.
func TestEventOfAHandlerInPlainHTTP(t *testing.T) {
	const want = "LifecycleHTTPFallback  request to HTTPS lifecycle hook of container app got HTTP response, retry with HTTP succeeded"
	for _, err := range []error{nil, errBroken} {
		bubble(t, func(t *testing.T, n *node) {
			n.restart(func(c *syncpod.Config) {
				c.Parts.Hooks = hooksFunc(func(_ context.Context, req hook.Request) (hook.Result, error) {
					return hook.Result{HTTPFallback: req.HTTPFallback}, err
				})
			})
			handler := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Scheme: v1.URISchemeHTTPS}}
			pod := testPod(func(p *v1.Pod) { p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: handler, PreStop: handler} })
			n.SyncPod(t.Context(), pod, nil)
			if got := n.events.count(want); got != 0 && err != nil || got != 1 && err == nil {
				t.Errorf("the handler returns %v: %d events, want one of a success only: %q", err, got, n.events.all)
			}
			if err != nil {
				return
			}
			must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod, Deadline: time.Now().Add(5 * time.Second)}))
			if got := n.events.count(want); got != 2 {
				t.Errorf("%d events after the preStop handler, want 2: %q", got, n.events.all)
			}
		})
	}
}

// C6: a handler is not run if it or its container has been removed.
func TestC6_MissingHandler(t *testing.T) {
	for name, edit := range map[string]func(*node, *v1.Pod){
		"handler":   func(_ *node, p *v1.Pod) { p.Spec.Containers[1].Lifecycle = nil },
		"container": func(_ *node, p *v1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
		"process":   func(n *node, _ *v1.Pod) { n.exit("app", 0) },
		"sandbox": func(n *node, p *v1.Pod) {
			p.Spec.Containers = p.Spec.Containers[1:] // no other handler is to be run
			n.Must(n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Err: errBroken})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				n.restart(recorded(dir))
				pod := testPod(never, containers(postStart(ctr("first"), "true"), postStart(ctr("app"), "true")))
				n.crashDuring(critest.StartContainer, "app", func(ctx context.Context) { n.SyncPod(ctx, pod, nil) }, recorded(dir))
				edit(n, pod)
				n.SyncPod(t.Context(), pod, nil)
				if ran := n.Journal().Count(critest.ExecSync); ran != 1 {
					t.Errorf("%d handlers were run, want that of the first\n%v", ran, n.Journal())
				}
			})
		})
	}
}

// A sandbox that cannot be configured is reported, and not requested.
func TestSandboxWithoutItsRuntimeClass(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(func(p *v1.Pod) { p.Spec.RuntimeClassName = new("gvisor") })
		r, err := n.SyncPod(t.Context(), pod, nil)
		if !errors.Is(err, syncpod.ErrConfigPodSandbox) || len(r.Failed) != 1 || r.Failed[0].Step != "sandbox" || !strings.Contains(err.Error(), "gvisor") {
			t.Errorf("error %v, failed %v", err, r.Failed)
		}
		if n.Journal().Count(critest.RunPodSandbox) != 0 || n.events.count("FailedCreatePodSandBox  Failed to create pod sandbox: ") != 1 {
			t.Errorf("events %q, want 0 and 1\n%v", n.events.all, n.Journal())
		}
	})
}

// The event SandboxChanged is recorded for a pod that gets a new sandbox, and not for a pod
// without an earlier sandbox, or one that no longer needs a sandbox.
func TestChangeOfASandboxIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		act  func(*node)
		want int
	}{
		"first one":       {testPod(), func(*node) {}, 0},
		"its run is over": {testPod(never), func(n *node) { n.exit("app", 0) }, 0},
		"lost":            {testPod(), func(n *node) { n.Must(n.Restart(faults.Restart{Sandboxes: faults.EffectStopped})) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.settle(tc.pod, time.Minute)
				tc.act(n)
				n.sync(tc.pod)
				if told := n.events.count("SandboxChanged"); told != tc.want {
					t.Errorf("%d events, want %d", told, tc.want)
				}
			})
		})
	}
}

// If a runtime does not answer the list call after a lost answer, the sync is delayed
// for Config.Limits.CleanupTimeout.
func TestInspectionsAreBounded(t *testing.T) {
	for _, m := range []critest.Method{critest.CreateContainer, critest.StartContainer} {
		for timeout, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 7 * time.Second: 7 * time.Second} {
			t.Run(fmt.Sprint(m, timeout), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					n.restart(func(c *syncpod.Config) { c.Limits.CleanupTimeout = timeout })
					n.Fault(faults.Fault{Match: faults.Match{Method: m}, Err: errDeadline})
					n.Fault(faults.Fault{Match: faults.Match{Method: critest.ListContainers}, Hang: &faults.Gate{}})
					began := time.Now()
					_, err := n.SyncPod(t.Context(), testPod(), &runtime.PodStatus{UID: podUID})
					if took := time.Since(began); err == nil || took != want {
						t.Errorf("%v after %v, want %v", err, took, want)
					}
				})
			})
		}
	}
}

// C2: a number is given up for a name that is refused, and for nothing else.
func TestC2_AttemptsThatFreeANumber(t *testing.T) {
	for name, tc := range map[string]struct {
		fault faults.Fault
		calls time.Duration
		want  string
	}{
		"the name is taken":          {faults.Fault{Err: status.Error(codes.AlreadyExists, "it exists")}, time.Hour, "app 1 running"},
		"the runtime is unavailable": {faults.Fault{Err: status.Error(codes.Unavailable, "gone")}, time.Hour, "app 0 running"},
		"the calls are short":        {faults.Fault{When: faults.Midway, Hang: &faults.Gate{}}, time.Second, "app 0 running"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				tc.fault.Match.Method, tc.fault.Times = critest.CreateContainer, 4
				if tc.fault.Hang != nil {
					tc.fault.Hang = &faults.Gate{} // of this bubble
				}
				fault := n.Fault(tc.fault)
				for range 3 {
					n.SyncPod(giveUp(t, tc.calls), testPod(), nil)
					time.Sleep(time.Hour)
				}
				if fault.Hits() != 3 {
					t.Errorf("asked %d times, want 3", fault.Hits())
				}
				fault.Remove()
				n.settle(testPod(), time.Minute)
				n.wantStates(tc.want)
			})
		})
	}
}

// C1: if a removed container's name is taken again each time, the name is requested twice in
// one sync.
func TestC1_HolderThatComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Client = n.calling(usurper{c.Client}) })
		_, err := n.SyncPod(t.Context(), testPod(), nil)
		if asked := n.Journal().Count(critest.CreateContainer); !errors.Is(err, cri.ErrAlreadyExists) || asked != 2 {
			t.Errorf("error %v after %d creations", err, asked)
		}
	})
}

// usurper creates another container than the requested one, and reports that the name is taken.
type usurper struct {
	runtimeapi.RuntimeServiceClient
}

func (u usurper) CreateContainer(ctx context.Context, req *runtimeapi.CreateContainerRequest, opts ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	other := proto.Clone(req).(*runtimeapi.CreateContainerRequest)
	other.Config.Annotations[runtime.AnnotationHash] = "other"
	if _, err := u.RuntimeServiceClient.CreateContainer(ctx, other, opts...); err != nil {
		return nil, err
	}
	return nil, status.Error(codes.AlreadyExists, "it exists")
}

// C7: a handler that exceeds its time has failed, regardless of the result of its runner.
func TestC7_RunnersWordsForADeadline(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) {
			c.Parts.Hooks = hooksFunc(func(ctx context.Context, _ hook.Request) (hook.Result, error) {
				<-ctx.Done()
				return hook.Result{}, errors.New("gave up")
			})
		})
		if _, err := n.SyncPod(t.Context(), testPod(containers(postStart(ctr("app"), "true"))), nil); !errors.Is(err, syncpod.ErrHookTimeout) {
			t.Errorf("error %v", err)
		}
	})
}
