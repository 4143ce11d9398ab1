package syncpod_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// A pod is explained as its last SyncPod has decided, with what its containers wait for.
func TestExplain(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app", "sleep", "1000")))
		if said := n.Explain(pod.UID); said != "" {
			t.Errorf("of a pod that is not known: %q", said)
		}
		fault := n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: errBroken})
		sync := func(want string) {
			t.Helper()
			_, _ = n.SyncPod(t.Context(), pod, nil)
			if said := n.Explain(pod.UID); !strings.Contains(said, want) {
				t.Errorf("%q, want %q in it", said, want)
			}
		}
		sync("The pod gets a new sandbox, attempt 0: the pod has no sandbox.")
		until := time.Now().Add(10 * time.Second).UTC().Format(time.RFC3339)
		sync("The start waits until " + until + ": the last try failed")
		fault.Remove()
		time.Sleep(time.Minute)
		sync(`Container "app" is started as attempt 0: the runtime has no record of it.`)
		sync("The pod is as it should be.")
		if err := n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}); err != nil {
			t.Fatal(err)
		}
		if said := n.Explain(pod.UID); !strings.HasPrefix(said, "The pod is being stopped, and its grace period ends at ") {
			t.Errorf("%q", said)
		}
	})
}

// Explain contains the message of each event about a decision.
func TestEventsAreExplained(t *testing.T) {
	for event, act := range map[string]func(n *node, pod *v1.Pod){
		"Killing spec.containers{app} Container app definition changed, will be restarted": func(_ *node, pod *v1.Pod) {
			pod.Spec.Containers[0].Image = "registry.test/other:1"
		},
		"BackOff spec.containers{app} Back-off restarting failed container app in pod web_default(" + podUID + ")": func(n *node, pod *v1.Pod) {
			n.exit("app", 1)
			n.sync(pod)
			n.exit("app", 1)
		},
		"BackOff spec.containers{app} Back-off pulling image": func(n *node, pod *v1.Pod) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Err: errBroken})
			pod.Spec.Containers[0].Image = "registry.test/other:1"
			_, _ = n.SyncPod(n.Context(), pod, nil)
		},
		"SandboxChanged  Pod sandbox changed, it will be killed and re-created.": func(n *node, _ *v1.Pod) {
			n.Must(n.Restart(faults.Restart{Sandboxes: faults.EffectStopped}))
		},
	} {
		t.Run(event, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(containers(ctr("app", "sleep", "1000")))
				n.settle(pod, time.Minute)
				act(n, pod)
				_, _ = n.SyncPod(t.Context(), pod, nil)
				at := slices.IndexFunc(n.events.all, func(e string) bool { return strings.HasPrefix(e, event) })
				if at < 0 {
					t.Fatalf("no such event in %q", n.events.all)
				}
				message := strings.SplitN(n.events.all[at], " ", 3)[2]
				if said := n.Explain(pod.UID); !strings.Contains(said, message) {
					t.Errorf("%q, want %q in it", said, message)
				}
			})
		})
	}
}
