package podworkers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// The pauses between the attempts to remove a pod grow to a minute, and other pods do not wait. The status is read
// after the last observation of the pod, and after each attempt.
func TestG5_RemovalIsRetried(t *testing.T) {
	inBubble(t, Config{}, func(b *bubble) {
		b.do = func(_ context.Context, w Work) (Result, error) {
			if w.UID == "a" && b.now() < 5*time.Minute {
				return Result{}, errBroken
			}
			return Result{}, nil
		}
		var since []time.Duration
		b.fresh = func(_ context.Context, uid types.UID, at time.Time) (*runtime.PodStatus, error) {
			if uid == "a" {
				since = append(since, at.Sub(b.start))
			}
			return &runtime.PodStatus{}, nil
		}
		b.RemoveOrphan(strayA)
		b.RemoveOrphan(RuntimePod{UID: "b"})
		synctest.Wait()
		b.wants("b", RemovePod)
		b.pass(10 * time.Minute)
		b.empty()
		want := []time.Duration{0, 2, 6, 14, 30, 62, 122, 182, 242, 302}
		for i, c := range b.calls("a") {
			if at := c.at.Sub(b.start); i >= len(want) || at != want[i]*time.Second {
				t.Errorf("try %d after %v, want %v s", i, at, want)
			}
		}
		if len(since) != len(want) || since[0] != 0 || since[1] != 0 || since[9] != 242*time.Second {
			t.Errorf("looked since %v", since)
		}
	})
}
