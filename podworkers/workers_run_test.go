package podworkers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The end of a caller's context ends only the wait of that caller.
func TestE3_CallersContextIsNotTheWorks(t *testing.T) {
	type key struct{}
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod {
				if _, ok := ctx.Deadline(); ok || ctx.Value(key{}) != nil {
					t.Error("work has the caller's context")
				}
				time.Sleep(10 * time.Second)
			}
			return Result{}, ctx.Err()
		}
		b.update(create(pod("a")))
		ctx, cancel := context.WithTimeout(context.WithValue(b.t.Context(), key{}, 1), time.Second)
		defer cancel()
		answer := b.killing(ctx, Update{Pod: pod("a")})
		b.pass(time.Second)
		b.answered(answer, context.DeadlineExceeded)
		if len(b.scheduler.requests.waiting) != 0 {
			t.Error("who gave up waiting is still waited for")
		}
		b.pass(9 * time.Second)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		for range 20 { // the answer is there, though ctx is over
			b.answered(b.killing(ctx, Update{Pod: pod("a")}), nil)
		}
	})
}

// E3: the end of Run cancels the work in flight and stops no pod. Waiting and later callers get ErrStopped.
func TestE3_DetachLeavesPodsRunning(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		var cause error
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.UID == "idle" {
				return Result{}, nil
			}
			<-ctx.Done()
			if w.UID == "busy" {
				cause = context.Cause(ctx)
			}
			return Result{}, ctx.Err()
		}
		b.update(create(pod("idle")))
		b.update(create(pod("busy")))
		b.update(kill(pod("stopping"), 0, nil))
		answer := b.killing(b.t.Context(), Update{Pod: pod("stopping")})
		b.stop()
		b.answered(answer, ErrStopped)
		if !errors.Is(cause, ErrStopped) {
			t.Errorf("cause %v, want ErrStopped", cause)
		}
		b.pass(time.Hour)
		b.wants("idle", SyncPod)
		b.wants("busy", SyncPod)
		b.wants("stopping", SyncTerminatingPod)
		for name, err := range map[string]error{
			"UpdatePod": b.UpdatePod(create(pod("new"))),
			"KillPod":   b.KillPod(b.t.Context(), Update{Pod: pod("idle")}),
			"Drain":     b.Drain(b.t.Context(), StopRequest{}),
			"Stray":     b.KillRuntimePod(strayA),
		} {
			if !errors.Is(err, ErrStopped) {
				t.Errorf("%s: %v, want ErrStopped", name, err)
			}
		}
		if err := b.Run(b.t.Context()); err == nil || !strings.Contains(err.Error(), "new Workers") {
			t.Errorf("a second Run: %v, want an error", err)
		}
		if !b.State("idle").MayHaveRunningContainers {
			t.Error("a pod that was left running is taken to be stopped")
		}
	})
}

// E3: Run returns only after all work has returned, abandoned work included.
func TestE3_RunWaitsForAllWork(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		release := make(chan struct{})
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncPod {
				<-release
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		b.pass(defaultAbandonAfter)
		b.cancel()
		b.pass(time.Hour)
		select {
		case <-b.over:
			t.Error("Run returned while work was in flight")
		default:
		}
		close(release)
	})
}

// E3: new Workers can be made for a Syncer whose Workers have stopped, and take
// updates before they run.
func TestE3_SecondWorkersOnOneSyncer(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(create(pod("a")))
		b.stop()
		w, err := New(Config{Syncer: b.scripted})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.UpdatePod(create(pod("a"))); err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() { answer <- w.KillPod(b.t.Context(), Update{Pod: pod("a")}) }()
		synctest.Wait()
		b.wants("a", SyncPod)
		ctx, cancel := context.WithCancel(b.t.Context())
		over := make(chan error)
		go func() { over <- w.Run(ctx) }()
		b.answered(answer, nil)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// E3: work has the values of Run's context.
func TestE3_WorkHasRunsValues(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, busy: map[types.UID]inFlight{}}
		s.do = func(ctx context.Context, _ Work) (Result, error) {
			_, limited := ctx.Deadline()
			if ctx.Value(key{}) != "v" || limited {
				t.Errorf("value %v, a deadline %v", ctx.Value(key{}), limited)
			}
			return Result{}, nil
		}
		w, err := New(Config{Syncer: s})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.UpdatePod(create(pod("a"))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		if err := w.Run(ctx); err != nil || len(s.calls("a")) != 1 {
			t.Errorf("%v, calls %v, want one call and no error", err, s.calls("a"))
		}
	})
}
