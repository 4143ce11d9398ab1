package critest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// randomRun creates pods in parallel on an unreliable runtime. It returns the faults of the calls,
// sorted, because goroutines run in any order.
func randomRun(t *testing.T, c faults.Random) (outcome []string, struck int) {
	onBubble(t, Config{}, func(n *node) {
		n.ok(n.SetRandom(c))
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				uid := fmt.Sprint("uid", i)
				for range 5 {
					if sandbox, err := n.trySandbox(n.Context(), uid); err == nil {
						_, _ = n.tryContainer(n.Context(), sandbox, uid, 0, "serve")
						return
					}
					time.Sleep(time.Second)
				}
			})
		}
		wg.Wait()
		for _, c := range n.Journal() {
			outcome = append(outcome, fmt.Sprint(c.PodUID, " ", c.Subject(), " ", status.Code(c.Err), " ", c.Fault))
			if c.Fault != "" {
				struck++
			}
		}
		slices.Sort(outcome)
	})
	return outcome, struck
}

func TestRandomIsTheSameForASeed(t *testing.T) {
	first, struck := randomRun(t, faults.Random{Seed: 1, Rate: 0.3})
	again, _ := randomRun(t, faults.Random{Seed: 1, Rate: 0.3})
	other, _ := randomRun(t, faults.Random{Seed: 2, Rate: 0.3})
	if !slices.Equal(first, again) {
		t.Error("the same seed made another run")
	}
	if slices.Equal(first, other) {
		t.Error("another seed made the same run")
	}
	if struck < 5 || struck == len(first) {
		t.Errorf("%d of %d calls were struck", struck, len(first))
	}
}

func TestRandomHasLimits(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		n.ok(n.SetRandom(faults.Random{Seed: 1, Rate: 1, Methods: []Method{version}, MaxDelay: time.Millisecond}))
		start := time.Now()
		for range 10 {
			_, _ = n.rt.Version(n.Context(), &runtimeapi.VersionRequest{})
			n.sandboxes()
		}
		hit := n.Journal().Where(func(c Call) bool { return c.Fault != "" })
		if len(hit) != 10 || hit.Count(version) != 10 || time.Since(start) > 10*time.Millisecond {
			n.Errorf("%v, want 10 calls of Version and at most %v", hit, 10*time.Millisecond)
		}
		n.ok(n.SetRandom(faults.Random{}))
		for _, c := range []faults.Random{{Rate: 2}, {Rate: -1}, {MaxDelay: -1}, {Methods: []Method{"x"}}} {
			if n.SetRandom(c) == nil {
				n.Errorf("%+v", c)
			}
		}
	})
}

func TestRandomEvents(t *testing.T) {
	run := func(c faults.Random) (told []string) {
		onBubble(t, Config{}, func(n *node) {
			n.ok(n.SetRandom(c))
			events := n.events()
			for i := range 20 {
				n.newSandbox(fmt.Sprint("uid", i))
			}
			time.Sleep(time.Minute)
			got, err := events()
			n.ok(err)
			for _, e := range got {
				told = append(told, e.GetPodSandboxStatus().GetMetadata().GetUid()+e.GetContainerEventType().String())
			}
		})
		return told
	}
	plain, first, again := run(faults.Random{}), run(faults.Random{Seed: 3, EventRate: 0.5}), run(faults.Random{Seed: 3, EventRate: 0.5})
	if len(plain) != 40 || slices.Equal(plain, first) || !slices.Equal(first, again) {
		t.Errorf("%d events without, %d and %d with a seed", len(plain), len(first), len(again))
	}
}
