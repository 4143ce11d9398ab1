package source

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// runPoll returns the last snapshot in words, and the number of snapshots.
func runPoll(t *testing.T, c PollConfig) (last func() (string, int), end func()) {
	p := must.Get(NewPoll(c))(t)
	var got deliveries
	return got.words, must.Run(t, func(ctx context.Context) error { return p.Run(ctx, got.add) })
}

func TestPoll(t *testing.T) {
	type answer struct {
		pods []*v1.Pod
		err  error
	}
	pods := func(pods ...*v1.Pod) answer { return answer{pods: pods} }
	synctest.Test(t, func(t *testing.T) {
		var next atomic.Pointer[answer]
		var calls atomic.Int64
		away := answer{err: errors.New("no route to host")}
		next.Store(&away)
		last, end := runPoll(t, PollConfig{Name: "own", Interval: time.Minute, List: func(context.Context) ([]*v1.Pod, error) {
			calls.Add(1)
			return next.Load().pods, next.Load().err
		}})
		time.Sleep(time.Second)
		for _, tt := range []struct {
			answer answer
			want   string
			times  int
		}{
			{away, "incomplete source own: no route to host", 1}, // the same is not delivered again
			{pods(pushed("a", "1"), pushed("b", "1")), "a=1 b=1", 2},
			{away, "a=1 b=1 source own: no route to host", 3},
			{pods(pushed("a", ""), pushed("c", "1")), "a=1 c=1 Pod ns/a: spec.containers[0].image: Required value", 4},
			{pods(pushed("d", ""), pushed("c", "1")), "c=1 incomplete Pod ns/d: spec.containers[0].image: Required value", 5},
			{pods(), "", 6},
		} {
			next.Store(&tt.answer)
			time.Sleep(time.Minute)
			if got, n := last(); got != tt.want || n != tt.times {
				t.Errorf("got %q in snapshot %d, want %q in %d", got, n, tt.want, tt.times)
			}
		}
		if got := calls.Load(); got != 7 {
			t.Errorf("%d calls in 6 minutes, want one each minute and one at the start", got)
		}
		end()
		time.Sleep(time.Hour)
		if got := calls.Load(); got != 7 {
			t.Errorf("%d calls after the end", got-7)
		}
	})
}

// A call that hangs ends with its context after 30 s. One that ignores its context is reported meanwhile, and
// Run returns only after it.
func TestPollHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last, end := runPoll(t, PollConfig{Name: "own", List: func(ctx context.Context) ([]*v1.Pod, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		time.Sleep(30 * time.Second)
		if got, n := last(); got != "incomplete source own: context deadline exceeded" || n != 1 {
			t.Errorf("got %q in snapshot %d", got, n)
		}
		end()

		release := make(chan struct{})
		last, end = runPoll(t, PollConfig{Name: "own", List: func(context.Context) ([]*v1.Pod, error) {
			<-release
			return []*v1.Pod{pushed("a", "1")}, nil
		}})
		time.Sleep(31 * time.Second)
		if got, n := last(); got != "incomplete source own: the call of List has not returned 1s after the end of its context" || n != 1 {
			t.Errorf("got %q in snapshot %d", got, n)
		}
		close(release)
		if got, n := last(); got != "a=1" || n != 2 {
			t.Errorf("got %q in snapshot %d", got, n)
		}
		end()
	})
}

func TestNewPollRefuses(t *testing.T) {
	list := func(context.Context) ([]*v1.Pod, error) { return nil, nil }
	for want, c := range map[string]PollConfig{
		"PollConfig.Name is missing":  {List: list},
		`PollConfig.Name is "api"`:    {Name: "api", List: list},
		"PollConfig.List is missing":  {Name: "own"},
		"PollConfig.Interval is -1ns": {Name: "own", List: list, Interval: -1},
	} {
		if _, err := NewPoll(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
