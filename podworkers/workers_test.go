package podworkers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// P1: a pod whose work hangs delays no other pod, nor does a pod whose status cannot be read.
func TestP1_HungPodDelaysNoOther(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.UID == "hung" {
				<-ctx.Done()
			}
			return Result{}, ctx.Err()
		}
		b.fresh = func(ctx context.Context, uid types.UID, _ time.Time) (*runtime.PodStatus, error) {
			if uid == "blind" {
				<-ctx.Done()
			}
			return &runtime.PodStatus{}, ctx.Err()
		}
		for _, uid := range []types.UID{"hung", "blind"} {
			if err := b.UpdatePod(create(pod(uid))); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 100 {
			if err := b.UpdatePod(create(pod(types.UID(fmt.Sprint(i))))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for i := range 100 {
			b.wants(types.UID(fmt.Sprint(i)), SyncPod)
		}
		if b.now() != 0 {
			t.Errorf("it took %v, want no time", b.now())
		}
	})
}

// P5: the wait for a newer status ends immediately when the pod must stop, and the work that needed the status is not
// started.
func TestP5_WaitForStatusIsInterrupted(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.fresh = func(ctx context.Context, _ types.UID, since time.Time) (*runtime.PodStatus, error) {
			if b.State("a").TerminationRequested {
				return &runtime.PodStatus{}, nil
			}
			<-ctx.Done()
			return &runtime.PodStatus{}, nil // an answer all the same
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.wants("a", SyncTerminatingPod, SyncTerminatedPod)
		if b.now() != 0 {
			t.Errorf("it took %v, want no time", b.now())
		}
	})
}

// Each call gets a status that was read after the end of the previous call, abandoned work included.
func TestP4_StatusIsNewerThanTheLastWork(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var since []time.Duration
		b.fresh = func(_ context.Context, _ types.UID, t time.Time) (*runtime.PodStatus, error) {
			if t.IsZero() {
				t = b.start.Add(-1)
			}
			since = append(since, t.Sub(b.start))
			return &runtime.PodStatus{}, nil
		}
		b.do = func(context.Context, Work) (Result, error) {
			time.Sleep(3 * time.Second)
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.pass(3 * time.Second)
		b.update(Update{Type: Changed, Pod: pod("a")})
		b.update(kill(pod("a"), 0, nil)) // the sync is abandoned at 4 s and ends at 6 s, so the pod is stopped twice
		b.pass(10 * time.Second)
		b.finished("a")
		want := []time.Duration{-1, 3 * time.Second, 4 * time.Second, 7 * time.Second, 10 * time.Second}
		if !slices.Equal(since, want) {
			t.Errorf("asked for a status since %v, want %v", since, want)
		}
	})
}

// P6: with a Syncer that takes no time, a whole life takes none.
func TestP6_WholeLifeTakesNoTime(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		if err := b.UpdatePod(create(pod("a"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := b.KillPod(b.t.Context(), Update{Pod: pod("a")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		b.finished("a")
		if b.now() != 0 {
			t.Errorf("it took %v, want no time", b.now())
		}
	})
}

// A pod whose sync returns a terminal result is stopped without a request.
func TestTerminalResultStopsThePod(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			return Result{Terminal: w.Type == SyncPod}, nil
		}
		b.update(create(pod("a")))
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
	})
}

// M1: static pods of one name run one after the other, with no time between.
func TestM1_StaticPodsTakeTurnsAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod {
				time.Sleep(time.Second)
			}
			return Result{}, nil
		}
		for i := range 6 {
			uid := types.UID(fmt.Sprint(i))
			b.update(create(static(uid)))
			if i < 5 {
				b.update(kill(static(uid), 0, nil))
			}
		}
		b.wants("5")
		b.pass(time.Second)
		b.wants("0", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		for _, uid := range []types.UID{"1", "2", "3", "4"} {
			b.wants(uid)
			b.finished(uid)
		}
		b.wants("5", SyncPod)
	})
}

// Of the updates that arrive while a pod is worked on, the last one counts.
func TestLatestUpdateWins(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		release := make(chan struct{})
		b.do = func(context.Context, Work) (Result, error) {
			<-release
			return Result{}, nil
		}
		b.update(create(pod("a")))
		for i := range 10 {
			p := pod("a")
			p.Generation = int64(i)
			b.update(Update{Type: Changed, Pod: p})
		}
		close(release)
		synctest.Wait()
		b.wants("a", SyncPod, SyncPod)
		if g := b.calls("a")[1].Pod.Generation; g != 9 {
			t.Errorf("synced generation %d, want 9", g)
		}
	})
}

func TestObserver(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(context.Context, Work) (Result, error) {
			time.Sleep(2 * time.Second)
			return Result{}, nil
		}
		b.told = func() { b.State("a") } // no lock is held
		b.update(create(pod("a")))
		b.pass(2 * time.Second)
		if !slices.Equal(b.ended, []time.Duration{2 * time.Second}) || !slices.Equal(b.seen, []types.UID{"a"}) {
			t.Errorf("ended %v, seen %v; want one pod seen and one sync of 2s", b.ended, b.seen)
		}
	})
}

// The Syncer gets the context that Trace returns, and the end of the trace gets the result of the call. A status that cannot
// be read is not traced.
func TestTrace(t *testing.T) {
	type key struct{}
	var told []string
	c := Config{Trace: func(ctx context.Context, w Work) (context.Context, func(error)) {
		told = append(told, "begin "+w.Type.String())
		return context.WithValue(ctx, key{}, w.revision), func(err error) { told = append(told, fmt.Sprint("end ", err)) }
	}}
	inBubble(t, c, func(b *bubble) {
		failed := false
		b.fresh = func(context.Context, types.UID, time.Time) (*runtime.PodStatus, error) {
			if !failed {
				failed = true
				return nil, errBroken
			}
			return &runtime.PodStatus{}, nil
		}
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if ctx.Value(key{}) != w.revision {
				t.Errorf("work %d has the context of %v", w.revision, ctx.Value(key{}))
			}
			told = append(told, "work")
			if w.Type == SyncPod {
				<-ctx.Done()
				return Result{}, errBroken
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.pass(10 * time.Second)
		b.update(kill(pod("a"), 0, nil)) // ends the context
		b.pass(time.Second)
		want := []string{
			"begin SyncPod", "work", "end " + errBroken.Error(),
			"begin SyncTerminatingPod", "work", "end <nil>", "begin SyncTerminatedPod", "work", "end <nil>",
		}
		if !slices.Equal(told, want) {
			t.Errorf("%q, want %q", told, want)
		}
	})
}

// Work that becomes due while Run calls an observer is still done.
func TestTimerFiresDuringACallOfTheObserver(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.abandoned = func() { time.Sleep(5 * time.Second) }
		failed := false
		b.do = func(_ context.Context, w Work) (Result, error) {
			switch {
			case w.UID == "deaf" && w.Type == SyncPod:
				time.Sleep(time.Minute)
			case w.UID == "b" && !failed:
				time.Sleep(3 * time.Second) // until Run is telling of the other
				failed = true
				return Result{}, temporary{errBroken}
			}
			return Result{}, nil
		}
		b.update(create(pod("deaf")))
		b.update(create(pod("b")))
		b.update(kill(pod("deaf"), 0, nil))
		b.pass(10 * time.Second)
		b.wants("b", SyncPod, SyncPod)
	})
}

// The queries of Workers, such as State, return the same results as those of their Set.
func TestAnswers(t *testing.T) {
	inBubble(t, Config{abandonAfter: time.Hour}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			switch {
			case w.UID == "asked" && w.Type == SyncPod:
				time.Sleep(time.Minute) // ignores the cancellation
			case w.UID == "evicted" && w.Type == SyncTerminatingPod, w.UID == "stopped" && w.Type == SyncTerminatedPod:
				<-ctx.Done()
			}
			return Result{}, ctx.Err()
		}
		for _, uid := range []types.UID{"runs", "asked", "evicted", "stopped"} {
			b.update(create(pod(uid)))
		}
		b.update(kill(pod("asked"), 0, nil))
		b.update(Update{Type: Kill, Pod: pod("evicted"), Stop: &StopRequest{Evict: true}})
		b.update(kill(pod("stopped"), 0, nil))
		for uid, want := range map[types.UID]string{
			"runs":    "may run",
			"asked":   "may run, requested",
			"evicted": "may run, requested, stopping, content",
			"stopped": "terminated, requested, stopping, runtime",
		} {
			var got []string
			state := b.State(uid)
			for _, q := range []struct {
				is   bool
				what string
			}{
				{state.MayHaveRunningContainers, "may run"}, {state.Terminated, "terminated"}, {state.ShouldBeFinished, "finished"},
				{state.TerminationRequested, "requested"}, {state.ContainersShouldBeTerminating, "stopping"},
				{state.RuntimeShouldBeRemoved, "runtime"}, {state.ContentShouldBeRemoved, "content"},
			} {
				if q.is {
					got = append(got, q.what)
				}
			}
			if got := strings.Join(got, ", "); got != want {
				t.Errorf("%s: %s, want %s", uid, got, want)
			}
		}
	})
}

// lines is a log that can be read.
type lines struct {
	mu   sync.Mutex
	read []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.read = append(l.read, line)
	}, funcr.Options{})
}

// Work that fails because of its cancellation does not count as failed.
func TestCancelledWorkIsNoFailure(t *testing.T) {
	var log lines
	inBubble(t, Config{Log: log.logger()}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				<-ctx.Done()
			}
			return Result{}, ctx.Err()
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.update(create(pod("b")))
	})
	for _, line := range log.read {
		if strings.Contains(line, "failed") {
			t.Errorf("logged %s, want no %q in it", line, "failed")
		}
	}
}

// The log has one line for each step, failure and abandoned work, and no other lines.
func TestLog(t *testing.T) {
	var log lines
	inBubble(t, Config{Log: log.logger(), retryTransient: time.Nanosecond}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				time.Sleep(2 * defaultAbandonAfter)
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.pass(2 * defaultAbandonAfter)
		b.do = failures(SyncTerminatingPod, temporary{errBroken})
		b.update(kill(pod("b"), 0, nil))
		b.pass(time.Second)
	})
	for i, want := range []string{
		`"podUID"="a" "from"="syncing" "to"="terminating"`,
		`"work was cancelled and does not return, going on without it" "podUID"="a" "work"="SyncPod"`,
		`"podUID"="a" "from"="terminating" "to"="terminated"`,
		`"podUID"="a" "from"="terminated" "to"="finished"`,
		`"podUID"="b" "from"="syncing" "to"="terminating"`,
		`"work failed" "error"="broken" "podUID"="b" "work"="SyncTerminatingPod" "retryIn"="1ns"`,
		`"podUID"="b" "from"="terminating" "to"="terminated"`,
		`"podUID"="b" "from"="terminated" "to"="finished"`,
	} {
		if i >= len(log.read) || !strings.Contains(log.read[i], want) {
			t.Fatalf("line %d of %q, want %s in it", i, log.read, want)
		}
	}
	if len(log.read) != 8 {
		t.Errorf("%d lines, want 8: %q", len(log.read), log.read)
	}
}

func TestNewNamesTheField(t *testing.T) {
	s := &scripted{}
	for want, c := range map[string]Config{
		"Config.Syncer is required":    {},
		"Config.MaxConcurrent is -1":   {Syncer: s, MaxConcurrent: -1},
		"Config.RetryInitial is -1s":   {Syncer: s, RetryInitial: -time.Second},
		"Config.RetryMax is 1s":        {Syncer: s, RetryInitial: time.Minute, RetryMax: time.Second},
		"Config.ResyncInterval is -1s": {Syncer: s, ResyncInterval: -time.Second},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if _, err := New(Config{Syncer: s, RetryInitial: time.Hour}); err != nil {
		t.Errorf("a long RetryInitial alone: %v", err)
	}
}

func TestUnusableUpdateIsRefused(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		for _, u := range []Update{{}, {Pod: &v1.Pod{}}, {Type: Kill, RuntimePod: &RuntimePod{}}} {
			if err := b.UpdatePod(u); err == nil {
				t.Errorf("%+v was taken", u)
			}
			if err := b.KillPod(b.t.Context(), u); err == nil {
				t.Errorf("%+v was taken to be killed", u)
			}
		}
		b.empty()
	})
}
