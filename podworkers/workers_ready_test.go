package podworkers

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The limit applies to syncs, is fair, and does not delay stops.
func TestMaxConcurrentDelaysOnlySyncs(t *testing.T) {
	inBubble(t, Config{MaxConcurrent: 2, ResyncInterval: time.Hour}, func(b *bubble) {
		b.do = func(ctx context.Context, w Work) (Result, error) {
			if w.Type != SyncPod {
				return Result{}, nil
			}
			select {
			case <-time.After(time.Second):
				return Result{}, nil
			case <-ctx.Done():
				return Result{}, ctx.Err()
			}
		}
		for _, uid := range []types.UID{"a", "b", "c", "d", "e"} {
			b.update(create(pod(uid)))
		}
		b.wants("b", SyncPod)
		b.wants("c")
		b.update(kill(pod("d"), 0, nil)) // it waits
		b.finished("d")
		b.update(kill(pod("b"), 0, nil)) // it has a place, which c gets
		b.finished("b")
		b.wants("c", SyncPod)
		b.wants("e")
		b.pass(time.Second)
		b.wants("e", SyncPod)
		b.pass(time.Second)
		if b.scheduler.ready.syncing != 0 {
			t.Errorf("%d syncs counted when none is in flight", b.scheduler.ready.syncing)
		}
	})
}

// Abandoned work frees its slot.
func TestAbandonedSyncFreesItsPlace(t *testing.T) {
	inBubble(t, Config{MaxConcurrent: 1}, func(b *bubble) {
		release := make(chan struct{})
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.UID == "deaf" && w.Type == SyncPod {
				<-release
			}
			return Result{}, nil
		}
		b.update(create(pod("deaf")))
		b.update(create(pod("a")))
		b.update(kill(pod("deaf"), 0, nil))
		b.pass(defaultAbandonAfter)
		b.wants("a", SyncPod)
		close(release)
	})
}

// A waiting pod is queued once, however many updates arrive.
func TestPodsAreInLineOnce(t *testing.T) {
	w, err := New(Config{Syncer: &scripted{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []Update{create(pod("a")), kill(pod("a"), 0, nil)} {
		for range 3 {
			if err := w.UpdatePod(u); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(w.scheduler.ready.syncs) != 1 || len(w.scheduler.ready.stops) != 1 {
		t.Errorf("in line %d times to run, %d times to stop", len(w.scheduler.ready.syncs), len(w.scheduler.ready.stops))
	}
}
