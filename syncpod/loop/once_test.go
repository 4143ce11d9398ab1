package loop_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// T2: a container exits, and its record is lost, while the handler of another container runs:
// no work on the pod begins before the handler has ended.
func TestT2_ExitIsObservedDuringTheSync(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Watch.EventRelist = 10 * time.Second })
		two := pod("file", "web", "u", "sleep 5; exit 3")
		two.Spec.Containers = append(two.Spec.Containers, *pod("file", "web", "u", forever).Spec.Containers[0].DeepCopy())
		two.Spec.Containers[1].Name = "other"
		two.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", "60"}}}}
		set(t, src, two)
		time.Sleep(30 * time.Second)
		if err := n.Remove(n.Journal().Container("app").Of(critest.StartContainer)[0].ContainerID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		for _, c := range a.sink.of("u").ContainerStatuses {
			if end := c.LastTerminationState.Terminated; c.Name == "app" && (end == nil || end.ExitCode != 3) {
				t.Errorf("the state of app is %+v, its last state %+v", c.State, end)
			}
		}
	})
}

// C5: a job is started, the runtime restarts, the job exits, and its record is removed
// before the same agent or another one inspects the runtime again.
func TestC5_JobThatExitsWhileTheRuntimeIsUnavailable(t *testing.T) {
	for name, restarts := range map[string]bool{"same agent": false, "new agent": true} {
		t.Run(name, func(t *testing.T) {
			records := syncpod.FileRecords{Dir: t.TempDir()}
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src := source.NewStaticPush("file")
				keep := func(c *nodeagent.Config) { c.Sync.Parts.Records = records }
				a := n.start([]source.Source{src}, keep)
				job := once(pod("file", "job", "u", "exit 0"))
				forget := n.OnCall(func(_ int, c critest.Call) {
					if c.Method == critest.StartContainer {
						go func() {
							time.Sleep(time.Millisecond)
							_ = n.Remove(c.ContainerID)
						}()
						_ = n.Restart(faults.Restart{Down: 20 * time.Second})
					}
				})
				set(t, src, job)
				time.Sleep(10 * time.Second)
				forget()
				if restarts {
					a.kill()
					src = source.NewStaticPush("file")
					a = n.start([]source.Source{src}, keep)
					set(t, src, job)
				}
				time.Sleep(time.Minute)
				if started := n.Journal().Count(critest.StartContainer); started != 1 {
					t.Errorf("it was started %d times\n%v", started, n.Journal().Changes())
				}
				s := a.sink.of("u")
				if s.Phase != v1.PodFailed || s.ContainerStatuses[0].State.Terminated == nil || s.ContainerStatuses[0].State.Terminated.Reason != "ContainerStatusUnknown" {
					t.Errorf("the pod is %s, %+v, want the phase %v and a terminated container with the reason %q", s.Phase, s.ContainerStatuses, v1.PodFailed, "ContainerStatusUnknown")
				}
			})
		})
	}
}
