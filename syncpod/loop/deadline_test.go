package loop_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// deleted returns a pod with a deletion timestamp and a grace period in seconds.
func deleted(p *v1.Pod, grace int64) *v1.Pod {
	p = p.DeepCopy()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
	return p
}

func (n *node) inject(f faults.Fault) faults.Injected {
	n.Helper()
	injected, err := n.Inject(f)
	if err != nil {
		n.Fatal(err)
	}
	return injected
}

// wantStops checks that a pod's containers were stopped, and by when at the latest.
func (n *node) wantStops(uid string, by time.Time) {
	n.Helper()
	calls := n.Journal().Pod(uid).Of(critest.StopContainer)
	if len(calls) == 0 {
		n.Error("it was not stopped")
	}
	for _, c := range calls {
		given := time.Duration(c.Request().(*runtimeapi.StopContainerRequest).Timeout) * time.Second
		if left := by.Sub(c.Start); given >= left+time.Second { // it is given whole seconds
			n.Errorf("%v is given %v, of the pod's time %v are left", c, given, left)
		}
	}
}

// W3: a pod is deleted before a new agent has listed the runtime: its grace period begins with the update of its
// source.
func TestW3_TimeRunsBeforeTheFirstList(t *testing.T) {
	for name, tc := range map[string]struct {
		first  bool // what its source says first is that it is deleted
		second bool // a second deletion with a shorter grace period
		want   time.Duration
	}{
		"reported at first":              {first: true, want: 30 * time.Second},
		"reported later":                 {want: 35 * time.Second},
		"reported twice":                 {first: true, second: true, want: 25 * time.Second},
		"reported later, an earlier one": {second: true, want: 25 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				web := api(pod("", "web", "u", deaf))
				n.leave(nil, web)
				n.inject(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Delay: 20 * time.Second})
				src, began := source.NewPush(), time.Now()
				n.start([]source.Source{src}, nil)
				if !tc.first {
					set(t, src, web)
					time.Sleep(5 * time.Second)
				}
				set(t, src, deleted(web, 30))
				if tc.second {
					time.Sleep(10*time.Second - time.Since(began))
					set(t, src, deleted(web, 15))
				}
				time.Sleep(time.Minute)
				n.wantStops("u", began.Add(tc.want))
				n.wantRunning(0, "u")
			})
		})
	}
}

// W3: the same holds for a pod that is also removed before the runtime has answered. No call is made for a wanted
// pod before that.
func TestW3_DeletedAndRemovedBeforeTheFirstList(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		web, job := api(pod("", "web", "u", deaf)), api(pod("", "job", "v", forever))
		n.leave(nil, web, job)
		n.inject(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Delay: 20 * time.Second})
		src, began, count := source.NewPush(), time.Now(), newCounter()
		n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Workers.Observer = count })
		set(t, src, deleted(web, 30), job)
		time.Sleep(5 * time.Second)
		set(t, src, job)
		time.Sleep(10 * time.Second)
		before := len(n.Journal())
		time.Sleep(time.Minute)
		n.wantStops("u", began.Add(30*time.Second))
		n.wantRunning(0, "u")
		n.wantRunning(1, "v")
		if changes := n.Journal().After(before).Pod("v").Changes(); len(changes) > 0 {
			t.Errorf("the pod that runs on was not left alone:\n%v", changes)
		}
		if got := count.of("u", podworkers.SyncTerminatedPod); got != 1 {
			t.Errorf("it was cleaned up after %d times, want once", got)
		}
	})
}

// W3: a source drops a pod, adds it again, and then deletes it: both the waiting pod and the first one must
// stop.
func TestW3_DeletedWhileItReturns(t *testing.T) {
	for name, between := range map[string]bool{"as it is": true, "as one that is deleted": false} {
		t.Run("it comes again "+name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				web := api(pod("", "web", "u", deaf))
				web.Spec.TerminationGracePeriodSeconds = new(int64(60))
				src := source.NewPush()
				n.start([]source.Source{src}, nil)
				set(t, src, web)
				time.Sleep(time.Minute)
				set(t, src)
				time.Sleep(5 * time.Second)
				if between {
					set(t, src, web)
					time.Sleep(5 * time.Second)
				}
				set(t, src, deleted(web, 3))
				time.Sleep(4 * time.Second)
				n.wantRunning(0, "u")
				starts := n.Journal().Of(critest.StartContainer)
				set(t, src)
				time.Sleep(time.Minute)
				if again := n.Journal().Of(critest.StartContainer); len(again) != len(starts) {
					t.Errorf("it was started again:\n%v", again)
				}
			})
		})
	}
}

// K7: a pod is deleted while the runtime is unavailable or hangs, and the agent is restarted
// meanwhile: the grace period does not start again.
func TestK7_RestartWhileTheRuntimeIsUnavailable(t *testing.T) {
	for name, trouble := range map[string]func(*node) error{
		"unavailable": func(n *node) error { return n.Restart(faults.Restart{Down: 30 * time.Second}) },
		"hangs": func(n *node) error {
			gate := &faults.Gate{}
			hang := n.inject(faults.Fault{Match: faults.Match{Method: critest.ListPodSandbox}, Times: faults.Always, Hang: gate})
			time.AfterFunc(30*time.Second, func() { hang.Remove(); gate.Open() })
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			records := syncpod.FileRecords{Dir: t.TempDir()}
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				keep := func(c *nodeagent.Config) { c.Sync.Parts.Records = records }
				web := api(pod("", "web", "u", deaf))
				n.leave(keep, web)
				if err := trouble(n); err != nil {
					t.Fatal(err)
				}
				src := source.NewPush()
				first := n.start([]source.Source{src}, keep)
				time.Sleep(10 * time.Second)
				gone := deleted(web, 28)
				set(t, src, gone)
				by := time.Now().Add(28 * time.Second)
				time.Sleep(5 * time.Second)
				first.kill()

				src = source.NewPush()
				n.start([]source.Source{src}, keep)
				set(t, src, gone)
				time.Sleep(2 * time.Minute)
				n.wantStops("u", by)
				n.wantRunning(0, "u")
				set(t, src)
				time.Sleep(time.Minute)
				if left, err := records.ListRecords(t.Context()); err != nil || len(left) > 0 {
					t.Errorf("records of %v, %v are left", left, err)
				}
			})
		})
	}
}

// W3: the same holds for a shorter grace period that a source sets, and removes again, while the pod stops.
func TestW3_DeletedAgainInOneBreath(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		p := pod("api", "web", "u", "trap '' TERM; sleep infinity")
		p.Spec.TerminationGracePeriodSeconds = new(int64(600))
		push := source.NewPush()
		n.start([]source.Source{push}, nil)
		set(t, push, p)
		time.Sleep(10 * time.Second)
		push.Delete("u")
		time.Sleep(10 * time.Second)
		last := p.DeepCopy()
		last.DeletionTimestamp, last.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(1))
		asked := time.Now()
		if err := push.Update(last); err != nil {
			t.Fatal(err)
		}
		push.Delete("u")
		time.Sleep(time.Hour)
		if took := n.Processes()[0].Ended.Sub(asked); took > 3*time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}

// K1: a failed stop is retried at the end of the grace period at the latest.
func TestK1_FailedStopIsTriedAtTheDeadline(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		p := pod("api", "web", "u", forever)
		p.Spec.TerminationGracePeriodSeconds = new(int64(60))
		push := source.NewPush()
		n.start([]source.Source{push}, nil)
		set(t, push, p)
		time.Sleep(10 * time.Second)
		_, err := n.Inject(faults.Fault{
			Match: faults.Match{Method: critest.StopContainer}, Times: faults.Always, Err: status.Error(codes.Internal, "no"),
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		push.Delete("u")
		time.Sleep(time.Hour)
		if took := n.Processes()[0].Ended.Sub(begin); took > 62*time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}
