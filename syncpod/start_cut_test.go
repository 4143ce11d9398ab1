package syncpod_test

import (
	"context"
	"testing"
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

// F14: the agent is killed while the runtime starts a container. The runtime aborts the
// start and reports an exit. The container still has its only run ahead, even
// if the remains of the start cannot be removed.
func TestF14_CutStartIsNoRun(t *testing.T) {
	for name, restarts := range map[string]bool{"new agent": true, "same agent": false} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(inits(ctr("init", "true")), containers(ctr("app"), ctr("b")), never)
				must(t, n.cutStart(pod, "app"))
				must(t, n.cutStart(pod, "app"))
				refused, err := n.Inject(faults.Fault{
					Match: faults.Match{Method: critest.RemoveContainer}, Times: faults.Always,
					Err: status.Error(codes.FailedPrecondition, "cannot delete running task"),
				})
				must(t, err)
				defer refused.Remove()
				if c := n.current("app"); c.State != runtime.ContainerExited || c.ExitCode == 0 {
					t.Fatalf("the runtime has it as %+v", c)
				}
				if restarts {
					n.restart(recorded(dir))
				}
				n.settle(pod, time.Minute)
				n.wantStates("app 0 exited", "app 1 exited", "app 2 running", "b 0 running", "init 0 exited")
				for _, s := range n.report.all {
					if s.Phase == v1.PodFailed {
						t.Errorf("it was reported as %+v", s)
					}
				}
			})
		})
	}
}

// S3: a created container without a start call is stopped in order to be removed, and the removal
// fails. Its exit because of the stop does not count as a run: the pod has not run yet.
func TestS3_ContainerStoppedBeforeItsStartHasNotRun(t *testing.T) {
	for name, restarts := range map[string]bool{"new agent": true, "same agent": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			bubble(t, func(t *testing.T, n *node) {
				pod := testPod(never)
				n.restart(recorded(dir))
				n.crashDuring(critest.CreateContainer, "app", func(ctx context.Context) { _, _ = n.SyncPod(ctx, pod, nil) }, recorded(dir))
				n.wantStates("app 0 created")
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemoveContainer}, Err: errBroken})
				_, _ = n.SyncPod(t.Context(), pod, nil) // the removal fails
				n.wantStates("app 0 exited")
				if restarts {
					n.restart(recorded(dir))
				}
				n.settle(pod, time.Minute)
				if got := n.current("app").State; got != runtime.ContainerRunning {
					t.Errorf("it is %v, want it to run", got)
				}
				for _, s := range n.report.all {
					if s.Phase == v1.PodFailed {
						t.Fatalf("it was reported as %+v", s)
					}
				}
			}, func(c *critest.Config) { c.Like = critest.CRIO })
		})
	}
}

// F14: a pod is deleted while one of its containers starts, and the start is given up for that.
// The runtime's word for it is not how the container ended, for it never ran.
func TestF14_StartThatADeletionCutsIsNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app")), never)
		must(t, n.cutStart(pod, "app"))
		if c := n.current("app"); c.State != runtime.ContainerExited || c.ExitCode != 128 {
			t.Fatalf("the runtime has it as %+v, want exit code 128", c)
		}
		must(t, n.SyncTerminatingPod(t.Context(), syncpod.Termination{Pod: pod}))
		must(t, n.SyncTerminatedPod(t.Context(), pod, nil))
		for _, s := range n.report.all {
			for _, c := range s.ContainerStatuses {
				if end := c.State.Terminated; end != nil && (end.ExitCode != 137 || end.Reason != "ContainerStatusUnknown") {
					t.Errorf("it was reported to have ended so: %+v, want 137 and ContainerStatusUnknown", end)
				}
			}
		}
		if last := n.report.all[len(n.report.all)-1]; last.Phase != v1.PodFailed || last.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("the last report is %+v, want the pod failed and the container terminated", last)
		}
	})
}

// cutStart syncs a pod with an agent that ends during a container's start.
func (n *node) cutStart(pod *v1.Pod, container string) error {
	n.Helper()
	_, err := n.Inject(faults.Fault{
		Match: faults.Match{Method: critest.StartContainer, Container: container}, When: faults.Midway, Delay: time.Hour,
	})
	ctx, cancel := context.WithTimeout(n.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		n.SyncPod(ctx, pod, nil)
		time.Sleep(time.Second)
	}
	return err
}

// A rejected start counts as an exit, even for the next agent.
func TestRefusedStartIsAnEnd(t *testing.T) {
	for name, restarts := range map[string]bool{"same agent": false, "new agent": true} {
		t.Run(name, func(t *testing.T) {
			withRecords(t, func(t *testing.T, n *node, dir string) {
				pod := testPod(containers(ctr("app", "no-such-command"), ctr("b")), never)
				n.SyncPod(t.Context(), pod, nil)
				n.wantStates("app 0 exited", "b 0 running")
				// The status after an interrupted start.
				must(t, n.EditContainer(n.current("app").ID.ID, func(s *runtimeapi.ContainerStatus) { s.StartedAt = 0 }))
				if restarts {
					n.restart(recorded(dir))
				}
				n.drive(pod, time.Minute)
				if made := n.Journal().Container("app").Count(critest.CreateContainer); made != 1 {
					t.Errorf("it was made %d times\n%v", made, n.Journal())
				}
			}, func(c *critest.Config) {
				c.Images = []critest.Image{{Name: "registry.test/app:1", OnlyKnown: true}}
			})
		})
	}
}
