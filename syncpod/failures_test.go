package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// The letter and number in a test's name are the row in docs/FAILURES.md of the failure
// that the test rules out.

// S2: a pod that has finished had only one sandbox.
func TestS2_FinishedPodGetsNoSandbox(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure} {
		for name, lose := range map[string]runtimeapi.PodSandboxState{"sandbox ends": runtimeapi.PodSandboxState_SANDBOX_NOTREADY, "sandbox stays": runtimeapi.PodSandboxState_SANDBOX_READY} {
			t.Run(fmt.Sprint(policy, "/", name), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					pod := testPod(containers(ctr("app", "true"), ctr("b", "true")), func(p *v1.Pod) { p.Spec.RestartPolicy = policy })
					n.sync(pod)
					synctest.Wait()
					must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = lose }))
					for range 10 {
						n.SyncPod(t.Context(), pod, nil)
						time.Sleep(6 * time.Second)
					}
					if made := n.Journal().Count(critest.RunPodSandbox); made != 1 {
						t.Errorf("%d sandboxes were made, want one\n%v", made, n.Journal())
					}
				})
			})
		}
	}
}

// S6: every sandbox is stopped before the pod counts as stopped, even one that is not
// ready, with as many attempts as necessary.
func TestS6_EverySandboxIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(), time.Minute)
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.settle(testPod(), time.Minute)
		before := len(n.Journal())
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: 3, Err: errBroken})
		for n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod()}) != nil {
			time.Sleep(time.Second)
		}
		stopped := map[string]bool{}
		for _, c := range n.Journal().After(before).Of(critest.StopPodSandbox) {
			stopped[c.SandboxID] = stopped[c.SandboxID] || c.Err == nil
		}
		for _, s := range n.status().Sandboxes {
			if !stopped[s.ID] {
				t.Errorf("sandbox %d was not stopped\n%v", s.Attempt, n.Journal().After(before))
			}
		}
	})
}

// S6: the same holds for a sandbox that was kept because a container could not be stopped, and whose
// container has then exited.
func TestS6_SparedSandboxIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app", "sleep", "10")))
		n.sync(pod)
		must(t, n.EditSandbox(n.status().Sandboxes[0].ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Delay: 15 * time.Second, Err: errBroken})
		for n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}) != nil {
			time.Sleep(time.Second)
		}
		if n.Journal().Count(critest.StopPodSandbox) == 0 {
			t.Errorf("the pod has ended, and its sandbox was not stopped\n%v", n.Journal())
		}
	})
}

// B3: other credentials end the wait for an image, and nothing else does.
func TestB3_OtherCredentialsAreTriedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		password := "old"
		n.restart(func(c *syncpod.Config) { c.Objects.PullSecrets = secretOf(&password) })
		must(t, n.SetCredentials("registry.test/app:1", &runtimeapi.AuthConfig{Username: "me", Password: "new"}))
		pod := testPod()
		n.drive(pod, 10*time.Minute)
		n.SyncPod(t.Context(), pod, nil)
		tries := n.Journal().Count(critest.PullImage)
		if tries < 4 || tries > 8 {
			t.Fatalf("%d pulls in ten minutes", tries)
		}
		n.SyncPod(t.Context(), pod, nil)
		if n.Journal().Count(critest.PullImage) != tries {
			t.Error("it was pulled before the wait was over")
		}
		password = "new"
		n.sync(pod)
		n.wantStates("app 0 running")
		if n.events.count("FailedToRetrieveImagePullSecret") != 0 {
			t.Errorf("events %q, want 0", n.events.all)
		}
	}, func(c *critest.Config) {
		c.Registry = []critest.RemoteImage{{Image: critest.Image{Name: "registry.test/app:1"}}}
	})
}

// secretOf is a pull secret with that password.
func secretOf(password *string) secretFunc {
	return func() []v1.Secret {
		auth := fmt.Sprintf(`{"auths":{"registry.test":{"username":"me","password":%q}}}`, *password)
		return []v1.Secret{{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(auth)}}}
	}
}

type secretFunc func() []v1.Secret

func (f secretFunc) PullSecrets(context.Context, *v1.Pod) ([]v1.Secret, error) { return f(), nil }

// B4: a step of the runtime's clock holds a container back by one wait at most.
func TestB4_ClockStepsDoNotMoveTheWait(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod()
				n.settle(pod, time.Minute)
				for range 2 {
					n.exit("app", 1)
					must(t, n.EditContainer(n.current("app").ID.ID, func(s *runtimeapi.ContainerStatus) { s.FinishedAt += int64(step) }))
					n.drive(pod, time.Second)
				}
				began := time.Now()
				n.drive(pod, 30*time.Second)
				if c := n.current("app"); c.State != runtime.ContainerRunning || c.Attempt != 2 || c.StartedAt.Sub(began) > 10*time.Second {
					t.Errorf("app %d is %v, started %v later", c.Attempt, c.State, c.StartedAt.Sub(began))
				}
			})
		})
	}
}

// B5: for any error of a pull, the pod can be stopped at once.
func TestB5_PullErrorsDoNotKeepAPodFromEnding(t *testing.T) {
	for _, code := range []codes.Code{codes.Unknown, codes.Unavailable, codes.NotFound, codes.PermissionDenied, codes.DeadlineExceeded} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Err: status.Error(code, "no")})
				n.drive(testPod(), time.Minute)
				if took := n.end(testPod(), nil); took > 0 {
					t.Errorf("took %v, want at most 0", took)
				}
				n.wantEnded()
			})
		})
	}
}

// C7: a handler has two minutes.
func TestC7_DeadlineOfAHook(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		began := time.Now()
		_, err := n.SyncPod(t.Context(), testPod(containers(postStart(ctr("app"), "sleep", "100000"))), nil)
		if took := time.Since(began); !errors.Is(err, syncpod.ErrHookTimeout) || took > 2*time.Minute+2*time.Second {
			t.Errorf("error %v after %v", err, took)
		}
	})
}

// C8: a pod that is deleted before its container ran has not succeeded.
func TestC8_CreatedIsNotFinished(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(never)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		n.SyncPod(t.Context(), pod, nil)
		n.wantStates("app 0 created")
		n.end(pod, nil)
		must(t, n.SyncTerminatedPod(t.Context(), pod, n.status()))
		for _, s := range n.report.all {
			if s.Phase == v1.PodSucceeded {
				t.Fatalf("reported %s, want any other phase", s.Phase)
			}
		}
	})
}

// C9: a container that stops slowly does not delay the stop of the next one, regardless of its
// own restart policy.
func TestC9_ContainersOfAPodStopSideBySide(t *testing.T) {
	always, never := v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever
	for name, policy := range map[string]*v1.ContainerRestartPolicy{"the pod's policy": nil, "Always": &always, "Never": &never} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(containers(ctr("a"), ctr("b")))
				pod.Spec.Containers[0].RestartPolicy = policy
				n.settle(pod, time.Minute)
				n.stubborn("a", "b")
				n.end(pod, nil)
				if stops := n.Journal().Of(critest.StopContainer); len(stops) != 2 || !stops[0].Start.Equal(stops[1].Start) {
					t.Errorf("stops are not simultaneous:\n%v", stops)
				}
			})
		})
	}
}

// C9: when the whole pod stops, an error on one container does not prevent the stop of
// another one either.
func TestC9_AllAreStoppedThoughOneFails(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.settle(testPod(containers(ctr("a"), ctr("b"), ctr("c"))), time.Minute)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer, Container: "a"}, Err: errBroken})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer, Container: "b"}, Err: errBroken})
		err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: testPod(containers(ctr("a"), ctr("b"), ctr("c")))})
		joined := fmt.Sprint(err)
		for _, name := range []string{"container a", "container b"} {
			if !strings.Contains(joined, name) {
				t.Errorf("error %q does not name %s", joined, name)
			}
		}
		n.wantStates("a 0 running", "b 0 running", "c 0 exited")
	})
}
