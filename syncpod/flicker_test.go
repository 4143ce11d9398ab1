package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod"
)

// wantSteady checks that a container that is reported as waiting for a restart stays so until
// it is reported as running, and that an exit that was reported as the last state is not reported as the
// current state again.
func (r *reports) wantSteady(t *testing.T, container string) (waits, runs int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var before v1.ContainerStatus
	for n, s := range r.all {
		for _, c := range s.ContainerStatuses {
			if c.Name != container {
				continue
			}
			last := before.LastTerminationState.Terminated
			if now := c.State.Terminated; now != nil && last != nil && now.ContainerID == last.ContainerID {
				t.Errorf("status %d: the state is %+v, which was the last state before", n, now)
			}
			if w := before.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" && c.State.Waiting == nil && c.State.Running == nil && c.RestartCount == before.RestartCount {
				t.Errorf("status %d: the state is %+v after CrashLoopBackOff", n, c.State)
			}
			if c.State.Running != nil {
				runs++
			}
			if c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
				waits++
			}
			before = c
		}
	}
	return waits, runs
}

// T7: from a container's exit until its next start is seen, the
// reported state is Waiting, even while its image is pulled.
func TestT7_WaitingUntilTheStartIsSeen(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Inject(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Times: faults.Always, Delay: 3 * time.Second})
		n.drive(testPod(containers(ctr("app", "sh", "-c", "sleep 5; exit 3"))), 20*time.Minute)
		if waits, runs := n.report.wantSteady(t, "app"); waits < 4 || runs < 4 {
			t.Errorf("it was reported to wait %d times and to run %d times, want 4 of each", waits, runs)
		}
	})
}

// T7: a failure of the whole pod meanwhile does not replace the waiting reason of its container.
func TestT7_WaitingWhileThePodCannotBePrepared(t *testing.T) {
	fail := false
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) {
			c.Parts.Prepare = preparerFunc(func(context.Context, *v1.Pod) (sandbox.Input, error) {
				if fail {
					return sandbox.Input{}, errors.New("no volumes")
				}
				return sandbox.Input{}, nil
			})
		})
		pod := testPod(containers(ctr("app", "sh", "-c", "exit 3")))
		n.drive(pod, 2*time.Minute)
		fail = true
		n.drive(pod, 2*time.Minute)
		fail = false
		n.drive(pod, 10*time.Minute)
		synctest.Wait()
		if waits, _ := n.report.wantSteady(t, "app"); waits == 0 {
			t.Error("it was never reported to wait")
		}
	})
}
