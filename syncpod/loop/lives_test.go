package loop_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

func once(p *v1.Pod) *v1.Pod {
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	return p
}

// A pod has finished and is still wanted; then the runtime reports a running container of
// it. The agent stops the container as soon as it sees it.
func TestW6_StrayContainerOfFinishedPod(t *testing.T) {
	inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.StopContainer: 5 * time.Second}}, func(t *testing.T, n *node) {
		src, count := source.NewStaticPush("file"), newCounter()
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Watch.EventRelist, c.Workers.Observer = 10*time.Second, count
		})
		job := once(pod("file", "job", "u", "exit 0"))
		set(t, src, job)
		time.Sleep(35 * time.Second) // between two inspections, and long before the collector's pass
		if got := a.sink.of("u").Phase; got != v1.PodSucceeded {
			t.Fatalf("the pod is %s", got)
		}
		before := n.Journal()
		id := before.Pod("u").Of(critest.StartContainer)[0].ContainerID
		err := n.EditContainer(id, func(s *runtimeapi.ContainerStatus) {
			s.State, s.FinishedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, 0
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 24 { // there is always something to tidy up after
			set(t, src, job, pod("file", "web", fmt.Sprint("web", i), forever))
			time.Sleep(time.Second)
		}
		if stopped := n.Journal().After(len(before)).Of(critest.StopContainer).Where(func(c critest.Call) bool { return c.ContainerID == id }); len(stopped) == 0 {
			t.Errorf("what runs was not stopped:\n%v", n.Journal().After(len(before)))
		}
		if got := a.sink.of("u").Phase; got != v1.PodSucceeded {
			t.Errorf("the pod is %s after that", got)
		}
		if got := count.of("u", podworkers.SyncTerminatingRuntimePod); got != 1 {
			t.Errorf("it was stopped %d times, want once", got)
		}
	})
}

// The agent is restarted after a pod has finished: no container is started, the pod is
// cleaned up once, and does not count as an active pod in admission.
func TestW7_FinishedPodStaysFinished(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, once(pod("file", "job", "u", "exit 3")))
		removeAll(t, n) // the runtime forgets it, as with a reboot

		before := len(n.Journal())
		src := source.NewStaticPush("file")
		count, beside := newCounter(), -1
		second := n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Workers.Observer = count
			c.Admission = loop.AdmissionFunc(func(p *v1.Pod, others []*v1.Pod) *syncpod.Rejection {
				if p.UID == "u" {
					t.Error("a pod that has finished is asked for")
				}
				beside = len(others)
				return nil
			})
		})
		set(t, src, once(pod("file", "job", "u", "exit 3")), pod("file", "web", "w", forever))
		time.Sleep(time.Minute)
		if again := n.Journal().After(before).Pod("u").Of(starts...); len(again) > 0 {
			t.Errorf("it was started again:\n%v", again)
		}
		if got := count.of("u", podworkers.SyncTerminatedPod); got != 1 {
			t.Errorf("it was cleaned up after %d times, want once", got)
		}
		if beside != 0 {
			t.Errorf("%d pods count beside a new one, want none", beside)
		}
		if got := second.sink.of("u"); got.Phase != v1.PodFailed || len(got.ContainerStatuses) != 1 {
			t.Errorf("the new agent's sink has phase %q of it with %d containers, want what was reported before", got.Phase, len(got.ContainerStatuses))
		}
	})
}

// removeAll removes all sandboxes from the runtime.
func removeAll(t *testing.T, n *node) {
	t.Helper()
	for _, c := range n.Journal().Of(critest.RunPodSandbox) {
		if err := n.Remove(c.SandboxID); err != nil {
			t.Fatal(err)
		}
	}
}

// A running pod is adopted: no container is stopped or started, the pod is not admitted again,
// and its status continues.
func TestW7_RunningPodIsAdopted(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		first := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		ready := first.sink.of("u").Conditions
		first.kill()

		before := len(n.Journal())
		src = source.NewStaticPush("file")
		second := n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Admission = loop.AdmissionFunc(func(*v1.Pod, []*v1.Pod) *syncpod.Rejection {
				return &syncpod.Rejection{Reason: "OutOfCpu", Message: "no"}
			})
		})
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Hour)
		if changes := n.Journal().After(before).Changes(); len(changes) > 0 {
			t.Errorf("there was\n%v", changes)
		}
		got := second.sink.of("u")
		if got.Phase != v1.PodRunning || len(got.Conditions) != len(ready) {
			t.Fatalf("status %+v, want phase %v and %v conditions", got, v1.PodRunning, len(ready))
		}
		for i, c := range got.Conditions {
			if !c.LastTransitionTime.Equal(&ready[i].LastTransitionTime) {
				t.Errorf("condition %s changed at %v, want %v", c.Type, c.LastTransitionTime, ready[i].LastTransitionTime)
			}
		}
	})
}

// There is room for pods that have ended, or are about to.
func TestOldPodsAreNotAskedFor(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		over, deleted := api(pod("", "over", "u", forever)), api(pod("", "deleted", "v", forever))
		over.Status.Phase = v1.PodSucceeded
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		src := source.NewPush()
		set(t, src, over, deleted)
		n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Admission = loop.AdmissionFunc(func(p *v1.Pod, _ []*v1.Pod) *syncpod.Rejection {
				t.Errorf("asked for pod %s", p.Name)
				return nil
			})
		})
		time.Sleep(time.Minute)
	})
}

// A rejected pod is reported, is never started, and is removed when its source
// drops it. The same holds for a deletion that only the next agent sees.
func TestW8_RefusedPodEnds(t *testing.T) {
	refuse := func(c *nodeagent.Config) {
		c.Admission = loop.AdmissionFunc(func(*v1.Pod, []*v1.Pod) *syncpod.Rejection {
			return &syncpod.Rejection{Reason: "OutOfCpu", Message: "2 asked for, 1 left"}
		})
	}
	for _, restart := range []bool{false, true} {
		for _, from := range []string{runtime.ConfigSourceAPI, "file"} {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src := newPush(from)
				p := pod(from, "web", "u", forever)
				events := &recorder{}
				a := n.start([]source.Source{src}, func(c *nodeagent.Config) { refuse(c); c.Sync.Events = syncpod.EventRecorderFunc(events.Eventf) })
				set(t, src, p)
				synctest.Wait()
				got := a.sink.of("u")
				if got.Phase != v1.PodFailed || got.Reason != "OutOfCpu" || got.Message != "Pod was rejected: 2 asked for, 1 left" {
					t.Errorf("reported as %s, %s, %s, want Phase %v and Reason %q and Message %q", got.Phase, got.Reason, got.Message, v1.PodFailed, "OutOfCpu", "Pod was rejected: 2 asked for, 1 left")
				}
				if len(got.InitContainerStatuses)+len(got.ContainerStatuses)+len(got.EphemeralContainerStatuses) > 0 {
					t.Errorf("no container was ever there, and reported are %+v", got.ContainerStatuses)
				}
				if len(got.Conditions) == 0 {
					t.Error("it has no conditions")
				}
				if got := strings.Join(events.all(), ";"); got != "Warning OutOfCpu 2 asked for, 1 left" {
					t.Errorf("events: %s, want %q", got, "Warning OutOfCpu 2 asked for, 1 left")
				}
				if restart {
					a.kill()
					delete(n.store.records, "u") // the record had not reached the disk
					src = newPush(from)
					a = n.start([]source.Source{src}, refuse)
				}
				p = p.DeepCopy()
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, p.Spec.TerminationGracePeriodSeconds
				set(t, src, p)
				time.Sleep(2 * time.Second)
				if pods := a.Pods(); len(pods) != 1 || pods[0].Phase != podworkers.Finished {
					t.Errorf("it has not ended: %+v", pods)
				}
				set(t, src)
				synctest.Wait()
				if pods := a.Pods(); len(pods) != 0 || n.store.len() != 0 {
					t.Errorf("it is not forgotten: %+v", pods)
				}
				if calls := n.Journal().Pod("u").Changes(); len(calls) > 0 {
					t.Errorf("the runtime was asked for\n%v", calls)
				}
			})
		}
	}
}

// A pod is removed and added again with the same UID, at every point of its life:
// the new one starts as soon as the old one has stopped.
func TestW10_UIDReturns(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		after, later time.Duration
	}{
		{"while it is set up", forever, 0, 0},
		{"while it runs", forever, time.Minute, 0},
		{"while it stops", deaf, time.Minute, 2 * time.Second},
		{"when it has ended", forever, time.Minute, time.Minute},
		{"when it had finished", "exit 0", time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{Latency: map[critest.Method]time.Duration{critest.RunPodSandbox: time.Second, critest.RemovePodSandbox: 3 * time.Second}}, func(t *testing.T, n *node) {
				src := source.NewStaticPush("file")
				count := newCounter()
				a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Workers.Observer = count })
				set(t, src, once(pod("file", "web", "u", tt.script)))
				time.Sleep(tt.after)
				synctest.Wait()
				set(t, src)
				time.Sleep(tt.later)
				synctest.Wait()
				removed := len(n.Journal())
				next := once(pod("file", "web", "u", forever))
				next.Spec.Containers[0].Env = []v1.EnvVar{{Name: "NEW", Value: "1"}}
				set(t, src, next)
				time.Sleep(20 * time.Second)
				n.wantRunning(1, "u")
				if got := a.sink.of("u").Phase; got != v1.PodRunning {
					t.Errorf("the new pod is %s", got)
				}
				for _, c := range n.Journal().After(removed).Of(critest.CreateContainer) {
					if env := c.Request().(*runtimeapi.CreateContainerRequest).Config.Envs; !hasEnv(env, "NEW") {
						t.Errorf("a container of the old spec was made: %v", c)
					}
				}
				if tt.after > 0 && count.of("u", podworkers.SyncTerminatedPod) == 0 {
					t.Error("the old pod was not cleaned up after")
				}
			})
		})
	}
}

// The source removes a pod and adds it again before the loop has reconciled: the pod stops and starts again, as it does if
// the loop is faster.
func TestW10_UIDReturnsAtOnce(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{&blinking{src}}, nil)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		n.wantRunning(1, "u")
		if calls := n.Journal().Pod("u").Of(critest.StopContainer); len(calls) != 1 {
			t.Errorf("the pod was stopped %d times, want once", len(calls))
		}
		if calls := n.Journal().Pod("u").Of(critest.StartContainer); len(calls) != 2 {
			t.Errorf("the pod was started %d times, want twice", len(calls))
		}
		if got := a.sink.of("u").Phase; got != v1.PodRunning {
			t.Errorf("the pod is %s, want Running", got)
		}
	})
}

// blinking is a source that removes its pods for an instant after ten seconds.
type blinking struct{ source.Source }

func (b *blinking) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	return b.Source.Run(ctx, func(s source.Snapshot) {
		deliver(s)
		if len(s.Pods) == 0 {
			return
		}
		time.Sleep(10 * time.Second)
		deliver(source.Snapshot{})
		deliver(s)
	})
}

func hasEnv(env []*runtimeapi.KeyValue, name string) bool {
	for _, kv := range env {
		if kv.Key == name {
			return true
		}
	}
	return false
}

// Drained pods are started by the next agent.
func TestDrain(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		a := n.start([]source.Source{src}, nil)
		set(t, src, api(pod("", "web", "u", forever)), once(api(pod("", "job", "j", "exit 0"))))
		time.Sleep(time.Minute)
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.wantRunning(0, "u")
		set(t, src, api(pod("", "web", "u", forever)), once(api(pod("", "job", "j", "exit 0"))), api(pod("", "late", "l", forever)))
		synctest.Wait()
		n.wantRunning(0, "l")
		a.stop()
		src = source.NewPush()
		b := n.start([]source.Source{src}, nil)
		set(t, src, api(pod("", "web", "u", forever)), once(api(pod("", "job", "j", "exit 0"))))
		time.Sleep(time.Minute)
		n.wantRunning(1, "u")
		if got := b.sink.of("j").Phase; got != v1.PodSucceeded {
			t.Errorf("the job is %s", got)
		}
		if got := n.Journal().Pod("j").Count(critest.StartContainer); got != 1 {
			t.Errorf("the job was started %d times", got)
		}
	})
}

// A pod that the node stops is not started again, by the next agent neither.
func TestKillPod(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		a := n.start([]source.Source{src}, nil)
		set(t, src, api(pod("", "web", "u", forever)))
		time.Sleep(time.Minute)
		if err := a.KillPod(t.Context(), "none", podworkers.StopRequest{}); err == nil {
			t.Error("a pod that is not known is stopped")
		}
		report := &podworkers.StopReport{Reason: "Evicted", Message: "the node is low on memory"}
		if err := a.KillPod(t.Context(), "u", podworkers.StopRequest{Evict: true, Report: report}); err != nil {
			t.Fatal(err)
		}
		n.wantRunning(0, "u")
		if got := a.Pods()[0].Status; got.Phase != v1.PodFailed || got.Reason != report.Reason || got.Message != report.Message {
			t.Errorf("reported as %s for %q, %q", got.Phase, got.Reason, got.Message)
		}
		synctest.Wait()
		a.kill()
		src = source.NewPush()
		n.start([]source.Source{src}, nil)
		set(t, src, api(pod("", "web", "u", forever)))
		time.Sleep(time.Minute)
		n.wantRunning(0, "u")
	})
}

// A pod may change while it is killed.
func TestKillPodWhileItChanges(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		ctx, giveUp := context.WithCancel(t.Context())
		giveUp()
		var group sync.WaitGroup
		for i := range 100 {
			p := pod("file", "web", "u", forever)
			p.Labels = map[string]string{"version": strconv.Itoa(i)}
			set(t, src, p)
			group.Go(func() { _ = a.KillPod(ctx, "u", podworkers.StopRequest{}) })
			time.Sleep(time.Microsecond)
		}
		group.Wait()
		time.Sleep(time.Minute)
		n.wantRunning(0, "u")
	})
}

// W6: a pod that an earlier agent has left running is evicted before this agent has worked on
// it: the eviction ends when the pod has stopped, within its grace period, and is reported.
func TestW6_KillPodThatWasAdopted(t *testing.T) {
	slow := "trap 'sleep 3; exit 0' TERM; sleep infinity & wait"
	for name, end := range map[string]func(*agent, *source.Push){
		"evicted": func(a *agent, _ *source.Push) {
			stop := podworkers.StopRequest{Evict: true, Report: &podworkers.StopReport{Reason: "Evicted", Message: "no room"}}
			if err := a.KillPod(a.t.Context(), "u", stop); err != nil {
				a.t.Error(err)
			}
			if s := a.sink.of("u"); s.Phase != v1.PodFailed || s.Reason != "Evicted" {
				a.t.Errorf("reported: %+v, want Phase %v and Reason %q", s, v1.PodFailed, "Evicted")
			}
		},
		"removed": func(a *agent, p *source.Push) {
			set(a.t, p, pod("file", "first", "f", forever))
			time.Sleep(3 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				n.leave(nil, pod("file", "web", "u", slow))
				n.inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Delay: time.Hour})
				push := source.NewStaticPush("file")
				a := n.start([]source.Source{push}, func(c *nodeagent.Config) { c.Workers.MaxConcurrent = 1 })
				set(t, push, pod("file", "first", "f", forever), pod("file", "web", "u", slow))
				time.Sleep(time.Second)
				began := time.Now()
				end(a, push)
				if took := time.Since(began); took != 3*time.Second {
					t.Errorf("took %v, want the 3s that it takes to stop", took)
				}
				synctest.Wait()
				n.wantRunning(0, "u")
				for _, stop := range n.Journal().Pod("u").Of(critest.StopContainer) {
					if s := stop.Request().(*runtimeapi.StopContainerRequest); s.Timeout != 5 {
						t.Errorf("stopped with %d s, want 5", s.Timeout)
					}
				}
			})
		})
	}
}

// A static pod that waits for another pod with its name is evicted: the eviction is reported, and the pod
// does not start when the other pod has ended.
func TestKillPodThatNeverHadItsTurn(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		push := source.NewStaticPush("file")
		a := n.start([]source.Source{push}, nil)
		slow := "trap '' TERM; sleep infinity"
		set(t, push, pod("file", "web", "first", slow))
		time.Sleep(time.Minute)
		set(t, push, pod("file", "web", "second", forever))
		time.Sleep(time.Second)
		stop := podworkers.StopRequest{Report: &podworkers.StopReport{Reason: "Evicted", Message: "no room"}}
		if err := a.KillPod(t.Context(), "second", stop); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := a.sink.of("second"); s.Phase != v1.PodFailed || s.Reason != "Evicted" || s.Message != "no room" {
			t.Errorf("reported: %+v, want Phase %v and Reason %q and Message %q", s, v1.PodFailed, "Evicted", "no room")
		}
		n.wantRunning(0, "first", "second")
	})
}
