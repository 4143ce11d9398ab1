package syncpod_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

func onFailure(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyOnFailure }

// polite makes the container exit with 0 on SIGTERM.
func polite(p *v1.Pod) { p.Spec.Containers = []v1.Container{ctr("app", "sh", "-c", testnode.Forever)} }

// stopForRestart stops a container that must start again.
type stopForRestart struct {
	policy func(*v1.Pod)
	// stop makes the next sync of the pod stop the container.
	stop func(n *node, pod *v1.Pod, results probes)
}

func stopsForRestart() map[string]stopForRestart {
	probe := func(p actions.ProbeResults) func(*node, *v1.Pod, probes) {
		return func(n *node, _ *v1.Pod, results probes) { results[n.current("app").ID] = p }
	}
	change := func(_ *node, pod *v1.Pod, _ probes) { pod.Spec.Containers[0].Image = "other" }
	return map[string]stopForRestart{
		"liveness":               {onFailure, probe(actions.ProbeResults{Liveness: actions.ProbeFailure})},
		"startup":                {onFailure, probe(actions.ProbeResults{Startup: actions.ProbeFailure})},
		"changed image":          {onFailure, change},
		"changed image of Never": {never, change},
		"second sandbox": {onFailure, func(n *node, pod *v1.Pod, _ probes) {
			pod.Spec.HostNetwork = true // the pod needs another sandbox
		}},
	}
}

// C13: a container that was stopped in order to be started again starts, although it exited with 0 and its start could not
// follow at once (kubernetes #109537).
func TestC13_StartFollowsTheStop(t *testing.T) {
	for name, tc := range stopsForRestart() {
		for _, who := range []string{"same agent", "next agent", "agent killed after the stop"} {
			t.Run(name+", "+who, func(t *testing.T) {
				dir, results := t.TempDir(), probes{}
				made := func(c *syncpod.Config) {
					recorded(dir)(c)
					c.Parts.Probes = results
				}
				bubble(t, func(t *testing.T, n *node) {
					n.restart(made)
					pod := testPod(polite, tc.policy)
					n.settle(pod, time.Minute)
					tc.stop(n, pod, results)
					if who == "agent killed after the stop" {
						n.crashDuring(critest.StopContainer, "app", func(ctx context.Context) { _, _ = n.SyncPod(ctx, pod, nil) }, made)
					} else {
						method := critest.CreateContainer
						if name == "second sandbox" {
							method = critest.RunPodSandbox
						}
						n.Fault(faults.Fault{Match: faults.Match{Method: method}, Err: status.Error(codes.Internal, "broken"), Times: 2})
						if _, err := n.SyncPod(t.Context(), pod, nil); err == nil {
							t.Fatal("the start has not failed")
						}
						if who == "next agent" {
							n.restart(made)
						}
					}
					if r, _ := n.SyncPod(t.Context(), pod, nil); r.Terminal {
						t.Fatalf("the pod has ended: %v", r.Plan)
					}
					if phase := n.report.last().Phase; phase != v1.PodRunning {
						t.Errorf("phase %s, want %s", phase, v1.PodRunning)
					}
					n.settle(pod, 10*time.Minute)
					if c := n.current("app"); c.State != runtime.ContainerRunning {
						t.Errorf("app is %v, want %v", c.State, runtime.ContainerRunning)
					}

					// The next exit is the container's own.
					n.exit("app", 0)
					if r := n.sync(pod); !r.Terminal {
						t.Errorf("the pod goes on after the container has completed: %v", r.Plan)
					}
				})
			})
		}
	}
}

// C13: a container whose liveness probe fails again and again is restarted, also while its restarts back off (kubernetes
// #109537).
func TestC13_LivenessFailsTwice(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		results := probes{}
		n.restart(func(c *syncpod.Config) { c.Parts.Probes = results })
		pod := testPod(polite, onFailure)
		n.settle(pod, time.Minute)
		for range 3 {
			results[n.current("app").ID] = actions.ProbeResults{Liveness: actions.ProbeFailure}
			n.settle(pod, 10*time.Minute)
		}
		n.wantStarts("app", 4)
	})
}

// C13: a restart that was called off, because the runtime refused the stop and the probe has recovered, does not restart
// the container after its own exit.
func TestC13_CalledOff(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		results := probes{}
		n.restart(func(c *syncpod.Config) { c.Parts.Probes = results })
		pod := testPod(polite, onFailure)
		n.settle(pod, time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: status.Error(codes.Internal, "broken"), Times: 1})
		results[n.current("app").ID] = actions.ProbeResults{Liveness: actions.ProbeFailure}
		if _, err := n.SyncPod(t.Context(), pod, nil); err == nil {
			t.Fatal("the stop has not failed")
		}
		clear(results)
		n.settle(pod, time.Minute)
		n.exit("app", 0)
		if r := n.sync(pod); !r.Terminal {
			t.Errorf("the pod goes on after the container has completed: %v", r.Plan)
		}
	})
}

// C13: a pod that is stopped because the node does not admit it runs again when the node does.
func TestC13_AdmittedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var rejected *syncpod.Rejection
		n.restart(func(c *syncpod.Config) {
			c.Extensions.Admit = []syncpod.Admitter{admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection { return rejected })}
		})
		pod := testPod(polite, onFailure)
		n.settle(pod, time.Minute)
		rejected = &syncpod.Rejection{Reason: "NoRoom", Message: "no room"}
		for range 3 {
			_, _ = n.SyncPod(t.Context(), pod, nil)
			time.Sleep(time.Second)
		}
		n.wantEnded()
		rejected = nil
		n.settle(pod, time.Minute)
		if c := n.current("app"); c.State != runtime.ContainerRunning {
			t.Errorf("app is %v, want %v", c.State, runtime.ContainerRunning)
		}
	})
}

// S9: a sandbox that never fits the pod is replaced with back-off, and the pod waits with an error.
func TestS9_ReplacementsBackOff(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod()
		n.settle(pod, time.Minute)
		began := time.Now()
		var gaps []time.Duration
		for len(gaps) < 5 && time.Since(began) < time.Hour {
			if n.readySandboxes() > 0 {
				_, err := n.Client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: n.status().ActiveSandbox().ID})
				n.Must(err)
			}
			made := n.Journal().Count(critest.RunPodSandbox)
			r, _ := n.SyncPod(t.Context(), pod, nil)
			if n.Journal().Count(critest.RunPodSandbox) > made {
				gaps, began = append(gaps, time.Since(began)), time.Now()
			} else if len(r.Failed) == 0 || !r.NextTry.After(time.Now()) {
				t.Fatalf("the pod waits without an error, next try %v", r.NextTry)
			}
			time.Sleep(time.Second)
		}
		if want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second}; !slices.Equal(gaps, want) {
			t.Errorf("replaced after %v, want %v", gaps, want)
		}
	})
}

// E8: a status that was read before the last SyncPod returned, or at the same time, does not show what that has started:
// SyncPod reads again, so that no container runs twice.
func TestE8_StatusOfBeforeIsReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod()
		before := &runtime.PodStatus{UID: podUID, ObservedAt: time.Now()}
		for range 3 {
			if _, err := n.SyncPod(t.Context(), pod, before); err != nil {
				t.Fatal(err)
			}
		}
		n.wantStarts("app", 1)
		if made := n.Journal().Count(critest.RunPodSandbox); made != 1 {
			t.Errorf("%d sandboxes, want 1", made)
		}
	})
}

// E8: a pod on the node's network needs no security context to keep its sandbox.
func TestE8_NoSecurityContextOnTheNetworkOfTheNode(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(func(p *v1.Pod) { p.Spec.HostNetwork = true })
		for range 10 {
			n.sync(pod)
			time.Sleep(time.Second)
		}
		if made := n.Journal().Count(critest.RunPodSandbox); made != 1 {
			t.Errorf("%d sandboxes, want 1", made)
		}
	})
}

// E9: nil is ignored, or refused by name. It never panics.
func TestE9_NilIsIgnoredOrRefused(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Observe(t.Context(), nil)
		refused := map[string]error{"SyncTerminatingPod": n.SyncTerminatingPod(t.Context(), syncpod.Termination{})}
		_, refused["SyncPod"] = n.SyncPod(t.Context(), nil, nil)
		refused["SyncTerminatedPod"] = n.SyncTerminatedPod(t.Context(), nil, nil)
		refused["SyncTerminatingRuntimePod"] = n.SyncTerminatingRuntimePod(t.Context(), syncpod.RuntimePod{})
		for call, err := range refused {
			if err == nil {
				t.Errorf("%s of nothing succeeds", call)
			}
		}
		_ = n.Explain("")
	})
}

// K8: when a process exits, the wait for its preStop handler ends, both in a stopping pod and before a container restart
// (kubernetes #134338, KEP-3960).
func TestK8_TheEndOfTheProcessEndsThePreStop(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarts=%t", restarts), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				results := probes{}
				n.restart(func(c *syncpod.Config) {
					c.Parts.Probes = results
					c.Parts.Hooks = hooksFunc(func(ctx context.Context, _ handler.Request) (handler.Result, error) { // a sleep
						select {
						case <-time.After(300 * time.Second):
							return handler.Result{}, nil
						case <-ctx.Done():
							return handler.Result{}, ctx.Err()
						}
					})
				})
				pod := testPod(inits(sidecar("proxy")), containers(preStop(ctr("app"), "sleep", "300")), func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = grace(600) })
				n.settle(pod, time.Minute)
				began, ended := time.Now(), make(chan error, 1)
				if restarts {
					results[n.current("app").ID] = actions.ProbeResults{Liveness: actions.ProbeFailure}
					go func() {
						_, err := n.SyncPod(t.Context(), pod, nil)
						ended <- err
					}()
				} else {
					go func() { ended <- n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}) }()
				}
				time.Sleep(10 * time.Second)
				n.exit("app", 1)
				n.Observe(t.Context(), n.status())
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 12*time.Second {
					t.Errorf("took %v, and the process ended after 10s", took)
				}
				if n.events.count("FailedPreStopHook") > 0 {
					t.Error("the handler is said to have failed")
				}
				if !restarts {
					n.wantEnded()
					return
				}
				n.settle(pod, time.Minute)
				n.wantStarts("app", 2)
			})
		})
	}
}

// T10: a container that becomes unready while its pod is being stopped is reported as unready, however long the stop takes
// (kubernetes #138889, #129552).
func TestT10_ReadinessDuringTheStopIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		results := lockedProbes{}
		n.restart(func(c *syncpod.Config) { c.Parts.Probes = &results })
		app := ctr("app")
		app.ReadinessProbe = &v1.Probe{}
		pod := testPod(containers(app), func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = grace(120) })
		n.settle(pod, time.Minute)
		n.stubborn("app")
		id := n.current("app").ID
		results.set(id, actions.ProbeSuccess)
		n.sync(pod)
		if !n.report.container("app").Ready {
			t.Fatal("app is not ready")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod}) }()
		time.Sleep(time.Second)
		if !n.report.container("app").Ready {
			t.Error("app is not ready before its probe fails")
		}
		results.set(id, actions.ProbeFailure)
		n.ProbesChanged(podUID)
		synctest.Wait()
		if n.report.container("app").Ready {
			t.Error("app is still reported as ready")
		}
		cancel()
		<-ended
	})
}

// lockedProbes are results of readiness probes that change during a call.
type lockedProbes struct {
	syncpod.NoProbes
	mu      sync.Mutex
	results map[runtime.ContainerID]actions.ProbeResults
}

func (p *lockedProbes) set(id runtime.ContainerID, readiness actions.ProbeResult) {
	p.setAll(id, actions.ProbeResults{Readiness: readiness})
}

func (p *lockedProbes) setAll(id runtime.ContainerID, results actions.ProbeResults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := map[runtime.ContainerID]actions.ProbeResults{id: results}
	for other, known := range p.results {
		if other != id {
			next[other] = known
		}
	}
	p.results = next
}

func (p *lockedProbes) ProbeResults(types.UID) map[runtime.ContainerID]actions.ProbeResults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results
}
