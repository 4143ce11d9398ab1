package loop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) Eventf(_ k8sruntime.Object, eventtype, reason, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, eventtype+" "+reason+" "+fmt.Sprintf(format, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// The runtime is unavailable for an hour while fifty pods run, and pods are changed, added and removed. The agent calls it
// every 5 s. When the runtime is available again, the agent first lists it, and then
// does all pending work.
func TestE1_RuntimeUnavailableForAnHour(t *testing.T) {
	for _, like := range []critest.Model{critest.Containerd2, critest.Containerd16} {
		inBubble(t, critest.Config{Like: like}, func(t *testing.T, n *node) {
			src := source.NewStaticPush("file")
			a := n.start([]source.Source{src}, nil)
			var pods []*v1.Pod
			for i := range 50 {
				pods = append(pods, pod("file", fmt.Sprintf("p%d", i), fmt.Sprintf("u%d", i), forever))
			}
			set(t, src, pods...)
			time.Sleep(time.Minute)
			before := len(n.Journal())
			n.Restart(faults.Restart{Down: time.Hour})
			time.Sleep(10 * time.Minute)
			pods[1] = pods[1].DeepCopy()
			pods[1].Labels = map[string]string{"changed": "1"}
			set(t, src, append(pods[1:], pod("file", "late", "late", forever))...)
			time.Sleep(50*time.Minute - time.Second)
			away := n.Journal().After(before)
			if got := len(away); got < 600 || got > 1600 {
				t.Errorf("%d calls in an hour, want two every 5 s at most:\n%v", got, away.Counts())
			}
			if h := a.Health(); h.Runtime.Err == nil {
				t.Errorf("health is %v", h)
			}
			gone := len(n.Journal())
			time.Sleep(7 * time.Second)
			back := n.Journal().After(gone).Where(func(c critest.Call) bool { return c.Err == nil })
			if len(back) < 2 || !strings.HasPrefix(back[0].Subject(), "List") || !strings.HasPrefix(back[1].Subject(), "List") {
				t.Fatalf("the first answers are to\n%v", back)
			}
			n.wantRunning(0, "u0")
			n.wantRunning(1, "u1", "u49", "late")
			if again := n.Journal().After(before).Where(func(c critest.Call) bool { return c.PodUID != "late" }).Of(starts...); len(again) > 0 {
				t.Errorf("pods that ran were started:\n%v", again)
			}
		})
	}
}

// A clean-up call hangs: a new pod is started at once all the same.
func TestE2_HousekeepingDelaysNoPod(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		first := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "orphan", "o", forever))
		synctest.Wait()
		first.kill()
		gate := new(faults.Gate)
		defer gate.Open()
		for _, m := range stops {
			if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: m}, Times: faults.Always, Hang: gate}); err != nil {
				t.Fatal(err)
			}
		}
		src = source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Parts = []loop.Part{hanging{}}
		})
		set(t, src)
		time.Sleep(5 * time.Second)
		if gate.Waiting() == 0 {
			t.Fatal("nothing is cleaned up")
		}
		before := time.Now()
		set(t, src, pod("file", "web", "w", forever))
		synctest.Wait()
		n.wantRunning(1, "w")
		if took := time.Since(before); took != 0 {
			t.Errorf("the pod was started after %v", took)
		}
	})
}

// hanging is a part that hangs like the runtime does.
type hanging struct{}

func (hanging) Run(ctx context.Context, _ loop.Host) error {
	<-ctx.Done()
	return ctx.Err()
}

// An agent that ends leaves the pods running. A second Run returns an error, and a
// new agent in the same program adopts the pods.
func TestE3_StopLeavesPodsRunning(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever), pod("file", "slow", "s", forever))
		time.Sleep(time.Minute)
		before := len(n.Journal())
		a.stop()
		time.Sleep(time.Hour)
		if calls := n.Journal().After(before); len(calls) > 0 {
			t.Errorf("after the agent was stopped there was\n%v", calls)
		}
		n.wantRunning(1, "u", "s")
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Run was called before") {
			t.Errorf("a second Run: %v", err)
		}
		src = source.NewStaticPush("file")
		n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		n.wantRunning(1, "u")
		n.wantRunning(0, "s")
	})
}

// An agent that must end does not wait for an unavailable runtime, and tells its parts that it is unavailable.
func TestE3_StopWhileTheRuntimeIsUnavailable(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src, seen := source.NewStaticPush("file"), &asker{}
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Parts = []loop.Part{seen}
		})
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		if err := n.Restart(faults.Restart{Down: time.Hour, Disconnect: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		set(t, src, pod("file", "web", "u", forever), pod("file", "web2", "v", forever))
		time.Sleep(time.Minute)
		if seen.host().Available() == nil {
			t.Error("Available returns no error, and the runtime is unavailable")
		}
		began := time.Now()
		if a.stop(); time.Since(began) > time.Second {
			t.Errorf("the agent ended after %v", time.Since(began))
		}
	})
}

// The agent is stopped while everything hangs: it returns at once.
func TestE3_StopWhileTheRuntimeHangs(t *testing.T) {
	for _, m := range []critest.Method{critest.RunPodSandbox, critest.PullImage, critest.StartContainer, critest.ListPodSandbox, critest.PodSandboxStatus} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			gate := new(faults.Gate)
			defer gate.Open()
			if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: m}, Times: faults.Always, Hang: gate}); err != nil {
				t.Fatal(err)
			}
			src := source.NewStaticPush("file")
			a := n.start([]source.Source{src}, nil)
			set(t, src, pod("file", "web", "u", forever))
			time.Sleep(time.Second)
			before := time.Now()
			a.stop()
			if took := time.Since(before); took > 10*time.Second {
				t.Errorf("%s hangs: Run returned after %v", m, took)
			}
		})
	}
}

// A pod stops in time even if its StatusSink fails. A container that another program has
// removed from the runtime is created again, and not reported as an exit.
func TestE4_NeitherForgetsNorInvents(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever), pod("file", "other", "o", forever))
		time.Sleep(time.Minute)
		removeAll(t, n)
		time.Sleep(time.Minute)
		n.wantRunning(1, "u", "o")
		if got := a.sink.of("u").Phase; got != v1.PodRunning {
			t.Errorf("the pod whose sandbox was removed is %s", got)
		}
		a.sink.mu.Lock()
		a.sink.err = errors.New("the server is unavailable")
		a.sink.mu.Unlock()
		before := time.Now()
		set(t, src, pod("file", "other", "o", forever))
		synctest.Wait()
		n.wantRunning(0, "u")
		if took := time.Since(before); took != 0 {
			t.Errorf("stopped after %v", took)
		}
	})
}

// On an edge node without its server, the agent and the runtime are restarted, and
// all pods run again from the local checkpoint. When the server is available again
// and wants the same pods, no pod is stopped.
func TestE5_OfflineRestart(t *testing.T) {
	for _, fate := range []faults.RestartEffect{faults.EffectNone, faults.EffectStopped, faults.EffectRemoved} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			want := func() []*v1.Pod {
				return []*v1.Pod{api(pod("", "web", "u1", forever)), api(pod("", "db", "u2", forever))}
			}
			src := source.NewPush()
			first := n.start([]source.Source{src}, nil)
			set(t, src, want()...)
			time.Sleep(time.Minute)
			first.kill()
			n.Restart(faults.Restart{Down: time.Second, Sandboxes: fate, Containers: fate})
			cached, server := source.NewStaticPush("cache"), source.NewPush()
			n.start([]source.Source{server, cached}, nil)
			set(t, cached, want()...)
			time.Sleep(10 * time.Minute)
			n.wantRunning(1, "u1", "u2")
			before := len(n.Journal())
			set(t, server, want()...)
			time.Sleep(10 * time.Minute)
			if changes := n.Journal().After(before).Changes(); len(changes) > 0 {
				t.Errorf("the server is back, and there was\n%v", changes)
			}
		})
	}
}

// On a runtime that answers at once, a whole life takes no time: nothing waits for a
// poll.
func TestP6_LifeWithoutTheClock(t *testing.T) {
	for _, like := range []critest.Model{critest.Containerd2, critest.Containerd16} {
		inBubble(t, critest.Config{Like: like}, func(t *testing.T, n *node) {
			src := source.NewStaticPush("file")
			a := n.start([]source.Source{src}, nil)
			synctest.Wait()
			began := time.Now()
			p := pod("file", "web", "u", forever)
			p.Spec.InitContainers = []v1.Container{{Name: "init", Image: "registry.test/app:1", Command: []string{"true"}}}
			set(t, src, p)
			synctest.Wait()
			if like == critest.Containerd2 {
				n.wantRunning(1, "u")
				if got := a.sink.of("u").Phase; got != v1.PodRunning {
					t.Errorf("the pod is %s", got)
				}
			} else {
				time.Sleep(100 * time.Millisecond) // the end of an init container is polled for
				n.wantRunning(1, "u")
				began = time.Now()
			}
			set(t, src)
			synctest.Wait()
			n.wantRunning(0, "u")
			if pods := a.Pods(); len(pods) != 0 || n.store.len() != 0 {
				t.Errorf("it is not forgotten: %v", pods)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("all of it took %v", took)
			}
		})
	}
}

// The agent handles and reports a crash without polling.
func TestP6_CrashIsSeenAtOnce(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		id := n.Journal().Pod("u").Of(critest.StartContainer)[0].ContainerID
		if err := n.ExitContainer(id, critest.Exit{Code: 7}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		n.wantRunning(1, "u")
		got := a.sink.of("u").ContainerStatuses
		if len(got) != 1 || got[0].RestartCount != 1 || got[0].LastTerminationState.Terminated == nil || got[0].LastTerminationState.Terminated.ExitCode != 7 {
			t.Errorf("reported as %+v, want one container, restarted once after exit code 7", got)
		}
	})
}

// Health reports failed work during its back-off, but not a crashed container.
func TestHealthListsWaitingWork(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Err: status.Error(codes.Unknown, "no registry")}); err != nil {
			t.Fatal(err)
		}
		set(t, src, pod("file", "web", "u", forever))
		for range 600 {
			time.Sleep(time.Second)
			if got := a.Health().String(); !strings.Contains(got, "no registry") {
				t.Fatalf("health is %q, want %q in it", got, "no registry")
			}
		}
		if got := a.Health().String(); !strings.Contains(got, "fails for 10m0s") {
			t.Errorf("health is %q, want %q in it", got, "fails for 10m0s")
		}
	})
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		set(t, src, pod("file", "web", "u", "exit 1"))
		for range 600 {
			time.Sleep(time.Second)
			if h := a.Health(); !h.OK() {
				t.Fatalf("health is %q", h)
			}
		}
	})
}

// Health reports failures with the pod and the time of the first failure.
func TestHealthListsPods(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		fault, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Err: status.Error(codes.Unknown, "no network")})
		if err != nil {
			t.Fatal(err)
		}
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(time.Minute)
		if got := a.Health().String(); !strings.Contains(got, "pod default/web u: fails for 1m0s") || !strings.Contains(got, "no network") {
			t.Errorf("health is %q, want %q in it and %q in it", got, "pod default/web u: fails for 1m0s", "no network")
		}
		fault.Remove()
		time.Sleep(10 * time.Minute)
		if h := a.Health(); !h.OK() || h.String() != "ok" {
			t.Errorf("health is %q, want %q", h, "ok")
		}
		if got := a.Pods(); len(got) != 1 || got[0].Pod.UID != types.UID("u") || got[0].Status.Phase != v1.PodRunning {
			t.Errorf("pods are %+v", got)
		}
	})
}
