package loop_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// A manifest was edited while no agent ran. The pod that an earlier agent has left
// stops before the new pod with the same name starts.
func TestM2_HeirWaitsForTheOrphan(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.StopContainer: 3 * time.Second}}, func(t *testing.T, n *node) {
		n.leave(nil, pod("file", "web", "old", forever))
		src := source.NewStaticPush("file")
		set(t, src, pod("file", "web", "new", forever))
		n.start([]source.Source{src}, nil)
		time.Sleep(time.Minute)
		stopped, started := n.Journal().Pod("old").Of(critest.StopContainer), n.Journal().Pod("new").Of(critest.RunPodSandbox)
		if len(stopped) == 0 || len(started) == 0 || started[0].Start.Before(stopped[0].Start.Add(3*time.Second)) {
			t.Errorf("stopped\n%v\nand started\n%v", stopped, started)
		}
	})
}

// E1: what an earlier agent has left cannot be stopped for a while. It is tried again
// with pauses, not at once after each failure, and it is stopped in the end.
func TestE1_OrphanIsNotStoppedInAHotLoop(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, pod("file", "web", "u", forever))
		_, err := n.Inject(faults.Fault{
			Match: faults.Match{Method: critest.StopContainer}, Times: 1000, Err: status.Error(codes.Unknown, "no"),
		})
		if err != nil {
			t.Fatal(err)
		}
		before := len(n.Journal())
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, nil)
		set(t, src)
		time.Sleep(time.Minute)
		if tries := n.Journal().After(before).Count(critest.StopContainer); tries < 2 || tries > 120 {
			t.Errorf("tried %d times in a minute", tries)
		}
		time.Sleep(100 * time.Hour)
		if left := n.Journal().Pod("u").Of(critest.RemovePodSandbox); len(left) == 0 {
			t.Error("it is not stopped and removed")
		}
	})
}

// M2: the containers that an earlier agent has left of a pod are being stopped, or cannot be stopped, when the
// pod is added again. It starts once they have been stopped.
func TestM2_PodReturnsWhileItsOrphanStops(t *testing.T) {
	for _, failing := range stops {
		t.Run(string(failing), func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				n.orphanThatDoesNotStop(failing, 5)
				src := source.NewStaticPush("file")
				n.start([]source.Source{src}, nil)
				set(t, src)
				time.Sleep(10 * time.Second)
				set(t, src, pod("file", "web", "u", forever))
				time.Sleep(10 * time.Minute)
				n.wantRunning(1, "u")
			})
		})
	}
}

// W6: if the pod changes meanwhile and is therefore stopped with its definition, containers
// that run after its end are still stopped.
func TestW6_StrayOfAPodThatWasAnOrphan(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.orphanThatDoesNotStop(critest.StopPodSandbox, 10)
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Watch.EventRelist = 10 * time.Second })
		set(t, src)
		time.Sleep(10 * time.Second)
		job := once(pod("file", "web", "u", "exit 3"))
		set(t, src, job)
		time.Sleep(100 * time.Millisecond)
		job = job.DeepCopy()
		job.Labels = map[string]string{"a": "b"}
		set(t, src, job)
		time.Sleep(10 * time.Minute)
		started := n.Journal().Pod("u").Of(critest.StartContainer)
		before := len(n.Journal())
		err := n.EditContainer(started[len(started)-1].ContainerID, func(s *runtimeapi.ContainerStatus) {
			s.State, s.FinishedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, 0
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n.Journal().After(before).Pod("u").Count(critest.StopContainer) == 0 {
			t.Errorf("what runs was not stopped\n%v", n.Journal())
		}
	})
}

// P6: a pod that was added again and changed, while the containers of an earlier agent were
// being stopped, is watched like any other pod: a crash is seen at once.
func TestP6_CrashOfAPodThatWasAnOrphan(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.StopContainer: 3 * time.Second}}, func(t *testing.T, n *node) {
		n.orphanThatDoesNotStop(critest.ExecSync, 0)
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, nil)
		set(t, src)
		time.Sleep(time.Second)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Second)
		changed := pod("file", "web", "u", forever)
		changed.Labels = map[string]string{"a": "b"}
		set(t, src, changed)
		time.Sleep(time.Minute)
		n.wantRunning(1, "u")
		started := n.Journal().Pod("u").Of(critest.StartContainer)
		if err := n.ExitContainer(started[len(started)-1].ContainerID, critest.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second) // it is the second crash
		n.wantRunning(1, "u")
	})
}

// M2: the stopped containers of an orphan do not count as runs of the pod that is added
// again meanwhile, regardless of its updates before the orphan has stopped.
func TestM2_StoppedOrphanIsNoRun(t *testing.T) {
	for name, changes := range map[string]bool{"it comes again": false, "and changes": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.StopContainer: 3 * time.Second}}, func(t *testing.T, n *node) {
				job := once(pod("file", "web", "u", forever))
				n.orphanThatDoesNotStop(critest.ExecSync, 0)
				src := source.NewStaticPush("file")
				n.start([]source.Source{src}, nil)
				set(t, src)
				time.Sleep(time.Second)
				set(t, src, job)
				time.Sleep(time.Second)
				if changes {
					job = job.DeepCopy()
					job.Labels = map[string]string{"a": "b"}
					set(t, src, job)
				}
				time.Sleep(time.Minute)
				n.wantRunning(1, "u")
			})
		})
	}
}

// orphanThatDoesNotStop leaves a pod behind that cannot be stopped for a while.
func (n *node) orphanThatDoesNotStop(failing critest.Method, times int) {
	n.Helper()
	src := source.NewStaticPush("file")
	first := n.start([]source.Source{src}, nil)
	set(n, src, pod("file", "web", "u", forever))
	time.Sleep(time.Minute)
	first.kill()
	_, err := n.Inject(faults.Fault{Match: faults.Match{Method: failing}, Times: times, Err: status.Error(codes.Unknown, "no")})
	if err != nil {
		n.Fatal(err)
	}
}

// W10: a pod is added again while the agent removes the objects that an earlier agent has left of it. Admission decides on
// the pod once, when the old pod is forgotten, and not with each change of the source.
func TestW10_AdmissionWaitsForTheOrphan(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, pod("file", "web", "u", forever))
		n.Exit(n.Journal().Pod("u").Of(critest.StartContainer)[0].ContainerID, 1)
		for _, sb := range n.Sandboxes() {
			n.Must(n.EditSandbox(sb.GetId(), func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		}
		const removal = 30 * time.Second
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemovePodSandbox}, Delay: removal})
		src := source.NewStaticPush("file")
		var decided []time.Duration
		began := time.Now()
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Admission = loop.AdmissionFunc(func(p *v1.Pod, _ []*v1.Pod) *syncpod.Rejection {
				if p.UID == "u" {
					decided = append(decided, time.Since(began))
				}
				return nil
			})
		})
		set(t, src)
		for _, other := range []string{"a", "b", "c"} {
			time.Sleep(2 * time.Second)
			set(t, src, pod("file", "web", "u", forever), pod("file", other, other, forever))
		}
		time.Sleep(2 * time.Minute)
		a.stop() // before decided is read
		if len(decided) != 1 || decided[0] < removal {
			t.Errorf("admission has decided after %v, want once after %v", decided, removal)
		}
		if got := n.Journal().Pod("u").Count(critest.RunPodSandbox); got != 2 {
			t.Errorf("%d sandboxes of the pod were made, want that of the earlier agent and a new one", got)
		}
	})
}
