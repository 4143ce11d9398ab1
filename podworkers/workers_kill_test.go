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

// killing calls KillPod, and returns a channel with its result.
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

// W9: KillPod returns when the pod has stopped, not before, and at once if there is no pod to stop.
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

// W9: a request is answered when its pod is forgotten before it has started.
func TestW9_KillOfForgottenPodIsAnswered(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(create(static("s1")))
		b.update(create(static("s2")))
		b.SyncKnownPods([]types.UID{"s1"})
		b.answered(b.killing(b.t.Context(), Update{Pod: static("s2")}), nil)
	})
}

// The IDs of requests that callers set are ignored.
func TestCallersStopIDsAreIgnored(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.UID == "slow" {
				time.Sleep(time.Second)
			}
			return Result{}, nil
		}
		answer := b.killing(b.t.Context(), Update{Pod: pod("slow")})
		b.update(kill(pod("a"), b.scheduler.requests.last, nil))
		b.unanswered(answer)
		b.pass(time.Second)
		b.answered(answer, nil)
	})
}

// The workers do not modify borrowed values.
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

// If KillPod times out, its error contains the error of the last attempt to stop the pod.
func TestW9_TimeoutReturnsTheLastError(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingPod {
				return Result{}, errBroken
			}
			return Result{}, nil
		}
		for _, uid := range []types.UID{"f", "e", "d", "c", "b", "a"} {
			b.update(create(pod(uid)))
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		killed := b.KillPod(ctx, Update{Pod: pod("a")})
		ctx, cancel = context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		drained := b.Drain(ctx, StopRequest{})
		for what, err := range map[string]error{"pod a is still": killed, "6 pods": drained, "pod a: broken": drained} {
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBroken) || !strings.Contains(err.Error(), what) {
				t.Errorf("error %v, want one of %s that wraps the deadline and the failure", err, what)
			}
		}
	})
}

// A failure before the last success is not the reason of a timeout.
func TestW9_TimeoutWithoutAnError(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = failures(SyncPod, errBroken)
		b.update(create(pod("a")))
		b.pass(time.Minute)
		b.do = func(ctx context.Context, _ Work) (Result, error) {
			<-ctx.Done()
			return Result{}, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		if err := b.KillPod(ctx, Update{Pod: pod("a")}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errBroken) {
			t.Errorf("error %v, want only that of the deadline", err)
		}
	})
}

// The Syncer gets the Report of a request.
func TestKillPodReports(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.update(create(pod("a")))
		evicted := StopReport{Reason: "Evicted", Message: "The node was low on resource: memory."}
		stop := &StopRequest{Evict: true, Report: &evicted}
		b.answered(b.killing(b.t.Context(), Update{Pod: pod("a"), Stop: stop}), nil)
		for _, c := range b.calls("a")[1:] {
			if c.Report == nil || *c.Report != evicted {
				t.Errorf("%v with report %+v, want %+v", c.Type, c.Report, evicted)
			}
		}
	})
}
