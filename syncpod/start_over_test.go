package syncpod_test

import (
	"slices"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// S3: a pod that may not restart loses its sandbox during its initialization. It starts
// over, unless an init container has failed or a regular one has run.
func TestS3_SandboxLostBeforeTheRun(t *testing.T) {
	for name, tc := range map[string]struct {
		init  []string
		syncs int // before the sandbox is lost, one a second
		over  bool
	}{
		"a sidecar ran":       {[]string{"sleep", "20"}, 2, false},
		"init containers ran": {[]string{"sleep", "2"}, 5, false},
		"one has failed":      {[]string{"sh", "-c", "sleep 3; exit 1"}, 5, true},
		"it has had its run":  {[]string{"true"}, 60, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				app := ctr("app")
				pod := testPod(never, inits(sidecar("s1"), ctr("init", tc.init...)), containers(app))
				slow := n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage, Image: app.Image}, Times: 2, Err: errBroken})
				var r syncpod.Result
				for range tc.syncs {
					r, _ = n.SyncPod(t.Context(), pod, nil) // what fails is tried again
					time.Sleep(time.Second)
				}
				slow.Remove()
				must(t, n.EditSandbox(n.status().LatestSandbox().ID, func(s *runtimeapi.PodSandboxStatus) {
					s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
				}))
				for range 60 {
					if r, _ = n.SyncPod(t.Context(), pod, nil); r.Terminal {
						break
					}
					time.Sleep(time.Second)
				}
				if r.Terminal != tc.over {
					t.Errorf("over: %t, want %v\n%v", r.Terminal, tc.over, n.Journal().Changes())
				}
				if !tc.over && !slices.Contains(n.states(), "app 0 running") {
					t.Errorf("it does not run\n%v", n.states())
				}
			})
		})
	}
}
