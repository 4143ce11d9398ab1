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

// killing asks for a pod to be stopped and returns where the answer comes.
func (b *bubble) killing(ctx context.Context, u Update) <-chan error {
	answer := make(chan error, 2)
	go func() { answer <- b.KillPod(ctx, u) }()
	synctest.Wait()
	return answer
}

func (b *bubble) unanswered(answer <-chan error) {
	b.t.Helper()
	select {
	case err := <-answer:
		b.t.Fatalf("at %v: answered %v before the pod stopped", b.now(), err)
	default:
	}
}

func (b *bubble) answered(answer <-chan error, want error) {
	b.t.Helper()
	synctest.Wait()
	select {
	case err := <-answer:
		if !errors.Is(err, want) {
			b.t.Fatalf("at %v: answered %v, want %v", b.now(), err, want)
		}
	default:
		b.t.Fatalf("at %v: no answer", b.now())
	}
}

// W9: whoever asks for a pod to be stopped is answered when it has stopped, not
// before, and at once if there is nothing to stop.
func TestW9_KillPodWaitsForTheEnd(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod || w.Type == SyncTerminatingRuntimePod {
				time.Sleep(4 * time.Second)
			}
			return Result{}, nil
		}
		ctx := b.t.Context()
		b.update(create(pod("a")))
		first := b.killing(ctx, Update{Pod: pod("a")})
		second := b.killing(ctx, Update{RuntimePod: &strayA, Stop: &StopRequest{ID: 1, GracePeriodSeconds: ptr(int64(60))}})
		b.pass(4*time.Second - 1)
		b.unanswered(first)
		b.unanswered(second)
		b.pass(1)
		b.answered(first, nil)
		b.answered(second, nil)
		b.answered(b.killing(ctx, Update{Pod: pod("a")}), nil)
		b.answered(b.killing(ctx, Update{RuntimePod: &strayA}), nil)

		runtimeOnly := b.killing(ctx, Update{RuntimePod: &RuntimePod{UID: "r"}})
		b.unanswered(runtimeOnly)
		b.pass(4 * time.Second)
		b.answered(runtimeOnly, nil)

		b.update(create(static("s1")))
		b.update(create(static("s2")))
		b.answered(b.killing(ctx, Update{Pod: static("s2")}), nil)
	})
}

// W9: a request whose pod is forgotten before it could start is answered then.
func TestW9_KillOfForgottenPodIsAnswered(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(create(static("s1")))
		b.update(create(static("s2")))
		b.Known([]types.UID{"s1"})
		b.answered(b.killing(b.t.Context(), Update{Pod: static("s2")}), nil)
	})
}

// The end of a caller's context ends its waiting and nothing else.
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
		if len(b.Workers.asked) != 0 {
			t.Error("who gave up waiting is still waited for")
		}
		b.pass(9 * time.Second)
		b.wants("a", SyncPod, SyncTerminatingPod, SyncTerminatedPod)
		b.answered(b.killing(ctx, Update{Pod: pod("a")}), nil) // the answer is there, though ctx is over
	})
}

// E3: the end of Run cancels the work in flight, stops no pod, and says so to
// those who wait and those who come later.
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
			"Stray":     b.Stray(strayA),
		} {
			if !errors.Is(err, ErrStopped) {
				t.Errorf("%s: %v, want ErrStopped", name, err)
			}
		}
		if err := b.Run(b.t.Context()); err == nil || !strings.Contains(err.Error(), "new Workers") {
			t.Errorf("a second Run: %v, want an error", err)
		}
		if !b.MayHaveRunningContainers("idle") {
			t.Error("a pod that was left running is taken to be stopped")
		}
	})
}

// E3: Run returns only when all work has, also what was abandoned.
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
		b.pass(DefaultAbandonAfter)
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
			t.Errorf("%v, calls %v", err, s.calls("a"))
		}
	})
}

func TestDrainStopsAllPods(t *testing.T) {
	inBubble(t, Config{MaxConcurrent: 1}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			switch {
			case w.Type == SyncPod && w.UID == "busy":
				<-ctx.Done()
			case w.Type == SyncTerminatingPod:
				time.Sleep(time.Until(w.Deadline))
			}
			return Result{}, ctx.Err()
		}
		for _, uid := range []types.UID{"done", "a", "busy", "waiting"} {
			b.update(create(pod(uid)))
		}
		b.update(killWithin(pod("done"), 1))
		b.update(create(static("s1")))
		b.update(create(static("s2")))
		b.update(Update{Type: Kill, RuntimePod: &RuntimePod{UID: "r", Name: "r"}})
		b.pass(time.Second)
		drained := make(chan error, 1)
		go func() { drained <- b.Drain(b.t.Context(), StopRequest{GracePeriodSeconds: ptr(int64(5))}) }()
		synctest.Wait()
		if err := b.UpdatePod(create(pod("new"))); !errors.Is(err, ErrDraining) {
			t.Errorf("a new pod: %v, want ErrDraining", err)
		}
		if err := b.UpdatePod(Update{Type: Sync, Pod: pod("a")}); err != nil {
			t.Errorf("news of a pod that stops: %v", err)
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		if err := b.Drain(ctx, StopRequest{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "3 pods") {
			t.Errorf("a second Drain: %v, want its context's error and three pods", err)
		}
		b.unanswered(drained)
		b.pass(4 * time.Second)
		b.answered(drained, nil)
		for _, uid := range []types.UID{"done", "a", "busy", "waiting", "s1", "s2"} {
			b.finished(uid)
		}
		b.Known(nil)
		b.empty()
		if err := b.Drain(b.t.Context(), StopRequest{}); err != nil {
			t.Errorf("with nothing left: %v", err)
		}
	})
}

func TestDrainSaysThatRunEnded(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(ctx context.Context, _ Work) (Result, error) {
			<-ctx.Done()
			return Result{}, ctx.Err()
		}
		b.update(create(pod("a")))
		drained := make(chan error, 1)
		go func() { drained <- b.Drain(b.t.Context(), StopRequest{}) }()
		synctest.Wait()
		b.stop()
		b.answered(drained, ErrStopped)
	})
}

// Identities of requests that callers made up are not taken for those of others.
func TestCallersStopIDsAreIgnored(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.UID == "slow" {
				time.Sleep(time.Second)
			}
			return Result{}, nil
		}
		answer := b.killing(b.t.Context(), Update{Pod: pod("slow")})
		b.update(kill(pod("a"), b.lastID, nil))
		b.unanswered(answer)
		b.pass(time.Second)
		b.answered(answer, nil)
	})
}

// What the workers were lent is as it was.
func TestKillPodDoesNotWriteToTheRequest(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		stop := &StopRequest{ID: 42, GracePeriodSeconds: ptr(int64(3))}
		if err := b.KillPod(b.t.Context(), Update{Pod: pod("a"), Stop: stop}); err != nil {
			t.Fatal(err)
		}
		if stop.ID != 42 || *stop.GracePeriodSeconds != 3 {
			t.Errorf("the request became %+v", stop)
		}
	})
}
