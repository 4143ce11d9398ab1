package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

func TestRefusedPodIsReportedAndStoppedButNotEnded(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var refusal *syncpod.Rejection
		n.restart(func(c *syncpod.Config) {
			c.Extensions.Admit = []syncpod.Admitter{
				admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection { return nil }),
				admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection { return refusal }),
			}
		})
		pod := testPod(containers(ctr("app"), ctr("b")))
		refusal = &syncpod.Rejection{Reason: "AppArmor", Message: "the profile is not loaded"}
		r := n.sync(pod)
		if r.Terminal || r.NextTry.IsZero() || !r.NextTry.After(time.Now()) {
			t.Errorf("result %+v, want a next try", r)
		}
		s := n.report.last()
		if s.Phase != v1.PodPending || s.Reason != "AppArmor" || s.Message != refusal.Message {
			t.Errorf("reported %s %q %q, want Phase %v and Reason %q and Message %v", s.Phase, s.Reason, s.Message, v1.PodPending, "AppArmor", refusal.Message)
		}
		if w := n.report.container("app").State.Waiting; w == nil || w.Reason != "Blocked" {
			t.Errorf("app is reported as %+v", n.report.container("app").State)
		}
		if made := n.Journal().Count(critest.RunPodSandbox); made > 0 {
			t.Fatal("a sandbox was made")
		}

		refusal = nil
		n.settle(pod, time.Minute)
		n.wantStates("app 0 running", "b 0 running")

		refusal = &syncpod.Rejection{Reason: "AppArmor"}
		n.sync(pod)
		n.wantEnded()
		reports := len(n.report.all)
		n.sync(pod) // the containers are seen to have stopped
		n.sync(pod)
		n.sync(pod)
		if again := len(n.report.all) - reports; again > 1 {
			t.Errorf("reported %d times although nothing changes", again)
		}

		refusal = nil
		n.settle(pod, time.Minute)
		n.wantStates("app 0 exited", "app 1 running", "b 0 exited", "b 1 running")
	})
}

func TestNetworkNotReady(t *testing.T) {
	for name, host := range map[string]bool{"own network": false, "node's network": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				missing := errors.New("cni config uninitialized")
				n.restart(func(c *syncpod.Config) {
					c.Extensions.Network = networkFunc(func(context.Context) error { return missing })
				})
				pod := testPod(func(p *v1.Pod) { p.Spec.HostNetwork = host })
				_, err := n.SyncPod(t.Context(), pod, nil)
				if host {
					must(t, err)
					n.wantStates("app 0 running")
					return
				}
				temporary, ok := errors.AsType[interface {
					error
					Temporary() bool
				}](err)
				if !errors.Is(err, missing) || !ok || !temporary.Temporary() {
					t.Errorf("error %v, want a temporary one", err)
				}
				if n.events.count("network is not ready: cni config uninitialized") != 1 {
					t.Errorf("events %q, want 1", n.events.all)
				}
				if n.report.last().Phase != v1.PodPending || n.Journal().Count(critest.RunPodSandbox) != 0 {
					t.Errorf("reported %v, want Phase %v and 0\n%v", n.report.last().Phase, v1.PodPending, n.Journal())
				}
				missing = nil
				n.settle(pod, time.Minute)
				n.wantStates("app 0 running")
			})
		})
	}
}

// A back-off begins when an admission has ended, and one that ends during an admission is over: otherwise a check that takes long
// would be repeated without a pause.
func TestAdmissionThatTakesLong(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		refusal := &syncpod.Rejection{Reason: "Busy"}
		n.restart(func(c *syncpod.Config) {
			c.Extensions.Admit = []syncpod.Admitter{admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection {
				time.Sleep(15 * time.Second)
				return refusal
			})}
		})
		for _, want := range []time.Duration{10 * time.Second, 20 * time.Second} { // the first one ends during the second admission
			if r := n.sync(testPod()); time.Until(r.NextTry) != want {
				t.Errorf("next try in %v, want %v", time.Until(r.NextTry), want)
			}
		}
		refusal = nil
		n.settle(testPod(), time.Minute)
		n.exit("app", 1)
		n.settle(testPod(), time.Minute)
		n.exit("app", 1)
		n.sync(testPod()) // its back-off of 10 s ends during the admission
		n.wantStates("app 0 exited", "app 1 exited", "app 2 running")
	})
}

// A rejected pod is stopped once, waits again after each rejection, and is not
// admitted again after it has finished.
func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		var refusal *syncpod.Rejection
		asked := 0
		n.restart(func(c *syncpod.Config) {
			c.Extensions.Admit = []syncpod.Admitter{admitterFunc(func(context.Context, *v1.Pod) *syncpod.Rejection { asked++; return refusal })}
		})
		pod := testPod(never)
		for range 2 {
			n.settle(pod, time.Minute)
			refusal = &syncpod.Rejection{Reason: "Busy"}
			if r := n.sync(testPod()); time.Until(r.NextTry) != 10*time.Second {
				t.Errorf("next try in %v, want 10s", time.Until(r.NextTry))
			}
			before := len(n.Journal())
			if r := n.sync(testPod()); time.Until(r.NextTry) != 10*time.Second {
				t.Errorf("news puts the next try off to %v, want 10s", time.Until(r.NextTry))
			}
			if n.Journal().After(before).Count(critest.StopContainer, critest.StopPodSandbox) != 0 {
				t.Errorf("stopped again\n%v", n.Journal().After(before))
			}
			time.Sleep(10 * time.Second)
			if r := n.sync(testPod()); time.Until(r.NextTry) != 20*time.Second {
				t.Errorf("next try in %v, want 20s", time.Until(r.NextTry))
			}
			refusal, pod = nil, testPod()
			n.settle(pod, time.Minute)
		}
		before := asked
		deleted := testPod()
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		if r := n.sync(deleted); !r.Terminal || asked != before {
			t.Errorf("over %v, asked %d times more", r.Terminal, asked-before)
		}
		failed := testPod(func(p *v1.Pod) { p.UID, p.Status.Phase = "failed", v1.PodFailed })
		n.sync(failed)
		before = asked
		if r := n.sync(failed); !r.Terminal || asked != before {
			t.Errorf("over %v, asked %d times more", r.Terminal, asked-before)
		}
	})
}
