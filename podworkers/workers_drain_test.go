package podworkers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// If no pod is left and ctx has ended, Drain succeeds.
func TestDrainOfNothingLeft(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		for range 100 {
			if err := b.Drain(ctx, StopRequest{}); err != nil {
				t.Fatalf("nothing is left to stop: %v", err)
			}
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
		if err := b.UpdatePod(kill(pod("stranger"), 0, nil)); err != nil {
			t.Errorf("a pod that is to stop: %v", err)
		}
		b.unanswered(drained)
		b.pass(4 * time.Second)
		b.answered(drained, nil)
		for _, uid := range []types.UID{"done", "a", "busy", "waiting", "s1", "s2"} {
			b.finished(uid)
		}
		b.SyncKnownPods(nil)
		b.empty()
		if err := b.Drain(b.t.Context(), StopRequest{}); err != nil {
			t.Errorf("with nothing left: %v", err)
		}
	})
}

// Drain also waits for orphaned containers of finished pods.
func TestDrainWaitsForStrays(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.Type == SyncTerminatingRuntimePod {
				time.Sleep(3 * time.Second)
			}
			return Result{}, nil
		}
		b.update(create(pod("a")))
		b.update(kill(pod("a"), 0, nil))
		for i, uid := range []types.UID{"a", "unknown"} { // the second is reported after the drain
			if err := b.KillRuntimePod(RuntimePod{UID: uid, Name: "a", Namespace: "ns"}); err != nil {
				t.Fatal(err)
			}
			want := time.Duration(i+1) * 3 * time.Second
			if err := b.Drain(b.t.Context(), StopRequest{}); err != nil || b.now() != want {
				t.Errorf("drained at %v: %v, want %v", b.now(), err, want)
			}
		}
	})
}

func TestDrainStopsInOrder(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		for _, uid := range uids {
			b.update(create(pod(uid)))
		}
		if err := b.Drain(b.t.Context(), StopRequest{}); err != nil {
			t.Fatal(err)
		}
		var last uint64
		for _, uid := range slices.Sorted(slices.Values(uids)) {
			stop := b.calls(uid)[1].revision
			if stop < last {
				t.Errorf("%s is stopped before another whose UID comes first", uid)
			}
			last = stop
		}
	})
}

func TestDrainReturnsAnErrorAfterRunEnded(t *testing.T) {
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
