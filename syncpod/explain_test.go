package syncpod_test

import (
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// A pod is explained as its last SyncPod has decided, with what its containers wait for.
func TestExplain(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app", "sleep", "1000")))
		if said := n.Explain(pod.UID); said != "" {
			t.Errorf("of a pod that is not known: %q", said)
		}
		fault := n.Fault(critest.Fault{Match: critest.Match{Method: critest.StartContainer}, Err: errBroken})
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
