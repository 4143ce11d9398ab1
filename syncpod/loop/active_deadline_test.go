package loop_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// The time that a pod may be active counts from its start, over a restart of the agent,
// too. Then it has failed and is not started again.
func TestActiveDeadline(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			p := pod("api", "bounded", "b", forever)
			p.Spec.ActiveDeadlineSeconds = new(int64(60))
			push := source.NewPush()
			a := n.start([]source.Source{push}, nil)
			set(t, push, p)
			begin := time.Now()
			time.Sleep(40 * time.Second)
			if restart {
				a.kill()
				push = source.NewPush()
				a = n.start([]source.Source{push}, nil)
				set(t, push, p)
			}
			time.Sleep(15 * time.Second)
			n.wantRunning(1, "b")
			time.Sleep(10 * time.Second)
			n.wantRunning(0, "b")
			if s := a.sink.of("b"); s.Phase != v1.PodFailed || s.Reason != "DeadlineExceeded" || s.Message != "Pod was active on the node longer than the specified deadline" {
				t.Errorf("after %v: %s %s %q, want Phase %v and Reason %q and a kubelet's message", time.Since(begin), s.Phase, s.Reason, s.Message, v1.PodFailed, "DeadlineExceeded")
			}
			time.Sleep(time.Hour)
			if ran := len(n.Processes()); ran != 1 {
				t.Errorf("it ran %d times", ran)
			}
		})
	}
}

// A pod that finishes in time does not fail because of its deadline; a pod that has never started
// does.
func TestActiveDeadlineOfOthers(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		job, stuck := pod("api", "job", "j", "sleep 5"), pod("api", "stuck", "s", forever)
		job.Spec.RestartPolicy = v1.RestartPolicyNever
		stuck.Spec.Containers[0].ImagePullPolicy = v1.PullNever
		job.Spec.ActiveDeadlineSeconds, stuck.Spec.ActiveDeadlineSeconds = new(int64(60)), new(int64(60))
		push := source.NewPush()
		a := n.start([]source.Source{push}, nil)
		set(t, push, job, stuck)
		time.Sleep(2 * time.Minute)
		if s := a.sink.of("j"); s.Phase != v1.PodSucceeded {
			t.Errorf("job: %s %s, want %v", s.Phase, s.Reason, v1.PodSucceeded)
		}
		if s := a.sink.of("s"); s.Phase != v1.PodFailed || s.Reason != "DeadlineExceeded" {
			t.Errorf("stuck: %s %s, want Phase %v and Reason %q", s.Phase, s.Reason, v1.PodFailed, "DeadlineExceeded")
		}
	})
}

// K7: the end of such a pod, once it has begun, is not called off by a restart of the agent.
func TestK7_ActiveDeadlineOverARestart(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		records := &stickyRecords{all: map[types.UID][]byte{}}
		with := func(c *nodeagent.Config) { c.Sync.Parts.Records = records }
		p := pod("api", "bounded", "b", "trap '' TERM; sleep infinity")
		p.Spec.TerminationGracePeriodSeconds, p.Spec.ActiveDeadlineSeconds = new(int64(600)), new(int64(60))
		push := source.NewPush()
		a := n.start([]source.Source{push}, with)
		set(t, push, p)
		begin := time.Now()
		time.Sleep(2 * time.Minute)
		a.kill()
		push = source.NewPush()
		n.start([]source.Source{push}, with)
		set(t, push, p)
		time.Sleep(time.Hour)
		all := n.Processes()
		if took := all[0].Ended.Sub(begin).Round(10 * time.Second); len(all) != 1 || took != 11*time.Minute {
			t.Errorf("it ended after %v, want 11m; it ran %d times", took, len(all))
		}
	})
}
