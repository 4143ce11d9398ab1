package loop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/store"
)

// lateStore cannot be read before a time.
type lateStore struct {
	*memoryStore
	from time.Time
	err  error
}

func (s lateStore) Load(ctx context.Context) ([]store.Status, error) {
	if time.Now().Before(s.from) {
		return nil, s.err
	}
	return s.memoryStore.Load(ctx)
}

// A finished pod does not run again if the disk returns its status late.
func TestW7_DiskThatCannotBeReadAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name      string
		away      time.Duration
		err       error
		runs, bad bool
	}{
		{"for some time", 20 * time.Second, errors.New("input/output error"), false, false},
		{"for good", time.Hour, store.ErrLost, true, true},
		{"for long", time.Hour, errors.New("input/output error"), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				job := pod("file", "job", "j", "sleep 3")
				job.Spec.RestartPolicy = v1.RestartPolicyNever
				push := source.NewStaticPush("file")
				first := n.start([]source.Source{push}, nil)
				set(t, push, job)
				time.Sleep(10 * time.Second)
				first.stop()
				for _, p := range n.Processes() {
					if err := n.Remove(p.ContainerID); err != nil {
						t.Fatal(err)
					}
				}
				push = source.NewStaticPush("file")
				a := n.start([]source.Source{push}, func(c *nodeagent.Config) {
					c.Store = lateStore{n.store, time.Now().Add(tt.away), tt.err}
				})
				set(t, push, job)
				time.Sleep(2 * time.Minute)
				if ran := len(n.Processes()) > 1; ran != tt.runs {
					t.Errorf("it ran again: %t", ran)
				}
				if health := a.Health(); (health.Store != nil) != tt.bad {
					t.Errorf("health: %v, want %v", health, tt.bad)
				}
			})
		})
	}
}

// hangingSink answers when its context ends.
type hangingSink struct{}

func (hangingSink) SetPodStatus(ctx context.Context, _ *v1.Pod, _ v1.PodStatus) error {
	<-ctx.Done()
	return ctx.Err()
}

// P1: a sink that hangs while the status of an earlier agent is reported again delays no work.
func TestP1_SinkHangsAfterARestart(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, pod("api", "web", "u", "sleep 300; exit 1"))
		push := source.NewPush()
		n.start([]source.Source{push}, func(c *nodeagent.Config) { c.Sync.Sink = hangingSink{} })
		set(t, push, pod("api", "web", "u", "sleep 300; exit 1"))
		time.Sleep(10 * time.Minute)
		if ran := len(n.Processes()); ran < 2 {
			t.Errorf("it ran %d times, and is not restarted", ran)
		}
	})
}
