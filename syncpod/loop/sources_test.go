package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

const deaf = "trap '' TERM; sleep infinity"

// Quick edits of a manifest: each edit results in another pod with the same name. Only one of them
// runs at a time, and finally the newest.
func TestM1_OnePodOfANameAtATime(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, nil)
		uids := []string{"u0", "u1", "u2", "u3", "u4", "u5"}
		set(t, src, pod("file", "web", "u0", deaf))
		synctest.Wait()
		for _, uid := range uids[1:] {
			set(t, src, pod("file", "web", uid, deaf))
			synctest.Wait()
		}
		for range 60 {
			total := 0
			for _, uid := range uids {
				total += n.running(uid)
			}
			if total > 1 {
				t.Fatalf("%v: %d containers of that name run", time.Now(), total)
			}
			time.Sleep(500 * time.Millisecond)
		}
		n.wantRunning(1, "u5")
		for _, uid := range uids[1:5] {
			if c := n.Journal().Pod(uid).Of(starts...); len(c) > 0 {
				t.Errorf("pod %s, replaced before its turn, was started:\n%v", uid, c)
			}
		}
	})
}

// The agent is killed at any call between the edit of a manifest and the start of the new pod:
// the next agent stops the old pod, and only then starts the new one.
func TestM2_ManifestEditedAndAgentRestarted(t *testing.T) {
	for k := 1; k <= 40; k += 3 {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			src := source.NewStaticPush("file")
			first := n.start([]source.Source{src}, nil)
			set(t, src, pod("file", "web", "old", forever))
			synctest.Wait()
			n.wantRunning(1, "old")
			crashed := make(chan struct{})
			n.CrashAfter(k, func() { first.conn.Close(); first.cancel(); close(crashed) })
			set(t, src, pod("file", "web", "new", forever))
			time.Sleep(time.Minute)
			select {
			case <-crashed:
			default:
				first.kill() // there were fewer calls
			}
			<-first.ended
			again := source.NewStaticPush("file")
			n.OnCall(func(int, critest.Call) {})
			n.start([]source.Source{again}, nil)
			set(t, again, pod("file", "web", "new", forever))
			time.Sleep(time.Minute)
			n.wantRunning(0, "old")
			n.wantRunning(1, "new")
			if stop, start := lastEnd(n, "old"), firstStart(n, "new"); start.Before(stop) {
				t.Errorf("crash after call %d: the new pod was started at %v, the old one stopped at %v\n%v", k, start, stop, n.Journal().Changes())
			}
		})
	}
}

func lastEnd(n *node, uid string) (at time.Time) {
	for _, c := range n.Journal().Pod(uid).Of(critest.StopContainer) {
		if c.Err == nil && c.End.After(at) && at.IsZero() {
			at = c.End
		}
	}
	return at
}

func firstStart(n *node, uid string) time.Time {
	return n.Journal().Pod(uid).Of(critest.StartContainer)[0].Start
}

// One of two sources never delivers: the pods of the other source are served, and the running pods of the silent source
// keep running, even after a restart, until it delivers.
func TestM3_EachSourceOnItsOwn(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		a, b := source.NewStaticPush("a"), source.NewStaticPush("b")
		first := n.start([]source.Source{a, b}, nil)
		set(t, a, pod("a", "one", "a1", forever), pod("a", "two", "a2", forever))
		set(t, b, pod("b", "three", "b1", forever))
		synctest.Wait()
		n.wantRunning(1, "a1", "a2", "b1")
		first.kill()

		before := len(n.Journal())
		a, b = source.NewStaticPush("a"), source.NewStaticPush("b")
		n.start([]source.Source{a, b}, nil)
		time.Sleep(time.Hour)
		if stopped := n.Journal().After(before).Of(stops...); len(stopped) > 0 {
			t.Fatalf("no source has spoken, and there was\n%v", stopped)
		}
		set(t, a, pod("a", "one", "a1", forever))
		time.Sleep(10 * time.Second)
		n.wantRunning(1, "a1", "b1")
		n.wantRunning(0, "a2")
		time.Sleep(time.Hour)
		n.wantRunning(1, "b1")
		if n.store.len() != 3 {
			t.Errorf("%d statuses are kept, want 3: of what source b has nothing is known", n.store.len())
		}
		set(t, b)
		time.Sleep(10 * time.Second)
		n.wantRunning(0, "b1")
		n.wantRunning(1, "a1")
		if n.store.len() != 1 {
			t.Errorf("%d statuses are kept, want that of the pod that is wanted", n.store.len())
		}
		if again := n.Journal().After(before).Of(starts...); len(again) > 0 {
			t.Errorf("nothing had to be started, and there was\n%v", again)
		}
	})
}

// A source that has not read all of its files may still want the running pods.
func TestM3_IncompleteSource(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		first := n.start([]source.Source{&scripted{name: "file", snapshots: []source.Snapshot{
			{Pods: []*v1.Pod{pod("file", "one", "u1", forever), pod("file", "two", "u2", forever)}},
		}}}, nil)
		synctest.Wait()
		first.kill()
		part := &scripted{name: "file", next: make(chan source.Snapshot, 1), snapshots: []source.Snapshot{
			{Pods: []*v1.Pod{pod("file", "one", "u1", forever)}, Incomplete: true, Errors: []error{errors.New("two.yaml: half written")}},
		}}
		second := n.start([]source.Source{part}, nil)
		time.Sleep(time.Hour)
		n.wantRunning(1, "u1", "u2")
		if h := second.Health(); h.OK() || !strings.Contains(h.String(), "source file: two.yaml: half written") {
			t.Errorf("health is %q, want a problem with %q in it", h, "source file: two.yaml: half written")
		}
		part.next <- source.Snapshot{Pods: []*v1.Pod{pod("file", "one", "u1", forever)}}
		time.Sleep(10 * time.Second)
		n.wantRunning(1, "u1")
		n.wantRunning(0, "u2")
		if h := second.Health(); !h.OK() {
			t.Errorf("health is %q", h)
		}
	})
}

// scripted is a source that delivers a first snapshot, and then those from a channel.
type scripted struct {
	name      string
	snapshots []source.Snapshot
	next      chan source.Snapshot
	err       error
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	for _, snapshot := range s.snapshots {
		deliver(snapshot)
	}
	for s.err == nil {
		select {
		case snapshot := <-s.next:
			deliver(snapshot)
		case <-ctx.Done():
			return nil
		}
	}
	return s.err
}

// The failure of a source is reported. Its pods keep running, and the other sources are served.
func TestM3_FailedSource(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		bad := &scripted{name: "bad", err: errors.New("no such host"), snapshots: []source.Snapshot{
			{Pods: []*v1.Pod{pod("bad", "one", "u1", forever), pod("bad", "clash", "u2", forever), pod("bad", "long", strings.Repeat("u", 64), forever)}},
		}}
		good := source.NewStaticPush("good")
		a := n.start([]source.Source{good, bad}, nil)
		set(t, good, pod("good", "two", "u2", forever))
		time.Sleep(time.Hour)
		n.wantRunning(1, "u1", "u2")
		got := a.Health().String()
		for _, want := range []string{"source bad: ended 1h0m0s ago: no such host", "u2 is that of a pod of source good", "/long: metadata.uid has 64 characters, want at most 63"} {
			if !strings.Contains(got, want) {
				t.Errorf("health is %q, want %q in it", got, want)
			}
		}
	})
}

// A pod is deleted and another one with its name is created: actions on one of them do not
// affect the other, in whichever order the updates arrive.
func TestM5_SameNameOtherUID(t *testing.T) {
	for _, order := range []string{"delete first", "create first", "at once"} {
		t.Run(order, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src := source.NewPush()
				n.start([]source.Source{src}, nil)
				a, b := api(pod("", "web", "a", deaf)), api(pod("", "web", "b", forever))
				set(t, src, a)
				synctest.Wait()
				switch order {
				case "delete first":
					set(t, src)
					synctest.Wait()
				case "create first":
					set(t, src, a, b)
					synctest.Wait()
				}
				set(t, src, b)
				time.Sleep(time.Minute)
				n.wantRunning(0, "a")
				n.wantRunning(1, "b")
				if stopped := n.Journal().Pod("b").Of(stops...); len(stopped) > 0 {
					t.Errorf("pod b was stopped:\n%v", stopped)
				}
				if got := n.Journal().Pod("b").Count(critest.StartContainer); got != 1 {
					t.Errorf("pod b was started %d times", got)
				}
			})
		})
	}
}

// A pod is worked on when it has changed in a way that matters, and not before.
func TestChangesThatMatter(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*v1.Pod)
		want   bool
	}{
		{"nothing", func(*v1.Pod) {}, false},
		{"an echo of the status", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning; p.ResourceVersion = "2" }, false},
		{"our own condition", func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}, false},
		{"a readiness gate", func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: "example.com/lb", Status: v1.ConditionTrue}}
		}, true},
		{"a label", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, true},
		{"an annotation", func(p *v1.Pod) { p.Annotations["a"] = "b" }, true},
		{"the spec", func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				src := &scripted{name: "api", next: make(chan source.Snapshot, 1), snapshots: []source.Snapshot{{Pods: []*v1.Pod{api(pod("", "web", "u", forever))}}}}
				count := newCounter()
				n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Workers.Observer = count })
				time.Sleep(10 * time.Second)
				before := count.of("u", 0)
				changed := api(pod("", "web", "u", forever))
				tt.change(changed)
				src.next <- source.Snapshot{Pods: []*v1.Pod{changed}}
				synctest.Wait()
				if got := count.of("u", 0) > before; got != tt.want {
					t.Errorf("worked on: %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// Additions are dealt with in the order of creation.
func TestOrderOfAdditions(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewPush()
		var order []string
		n.start([]source.Source{src}, func(c *nodeagent.Config) {
			c.Admission = loop.AdmissionFunc(func(p *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
				order = append(order, fmt.Sprint(p.Name, len(activePods)))
				return nil
			})
		})
		var pods []*v1.Pod
		for i := range 4 {
			p := api(pod("", fmt.Sprintf("p%d", i), fmt.Sprintf("u%d", i), forever))
			p.CreationTimestamp.Time = time.Unix(int64(100-i%3*10), 0)
			pods = append(pods, p)
		}
		set(t, src, pods...)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "p20 p11 p02 p33" {
			t.Errorf("asked for %s, want p20 p11 p02 p33: the name, and how many were admitted before", got)
		}
	})
}
