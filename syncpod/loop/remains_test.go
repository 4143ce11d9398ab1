package loop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// A pod has exited while no agent ran, and no source wants it. Its sandbox may
// still have a network: it is stopped, with retries, before it is removed
// (containerd #5768).
func TestS6_DeadOrphanIsStoppedBeforeItIsRemoved(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, pod("file", "web", "u", forever))
		if err := n.Restart(faults.Restart{Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}); err != nil {
			t.Fatal(err)
		}
		refusal := faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: 3, Err: status.Error(codes.Unknown, "CNI DEL failed")}
		if _, err := n.Inject(refusal); err != nil {
			t.Fatal(err)
		}

		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, nil)
		set(t, src)
		time.Sleep(time.Minute)
		got := n.Journal().Pod("u").Of(critest.StopPodSandbox, critest.RemovePodSandbox).Sequence()
		stop := "StopPodSandbox default/web attempt 0"
		if want := []string{stop, stop, stop, stop, "RemovePodSandbox default/web attempt 0"}; !slices.Equal(got, want) {
			t.Errorf("the runtime was asked for\n%q, want\n%q", got, want)
		}
	})
}

// speakLate runs an agent whose only source reports after ten minutes that it has no pods. It returns the agent's calls of the
// runtime, and fails the test if one of them changed anything before that report.
func (n *node) speakLate(t *testing.T) critest.Journal {
	before := len(n.Journal())
	src := source.NewStaticPush("file")
	n.start([]source.Source{src}, nil)
	time.Sleep(10 * time.Minute)
	if done := n.Journal().After(before).Changes(); len(done) > 0 {
		t.Errorf("before the source has spoken:\n%v", done)
	}
	set(t, src)
	time.Sleep(time.Minute)
	return n.Journal().After(before)
}

// M3: nor is anything of a dead pod removed before its source has spoken. Then the pod's worker removes its sandbox. A garbage
// collection, which begins at that moment, does not remove it again. The order of the two differs from run to run.
func TestM3_RemainsWaitForTheirSource(t *testing.T) {
	for range 20 {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			n.leave(nil, pod("file", "web", "u", forever))
			if err := n.Restart(faults.Restart{Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}); err != nil {
				t.Fatal(err)
			}
			if calls := n.speakLate(t); calls.Count(critest.RemovePodSandbox) != 1 {
				t.Errorf("the runtime was asked for\n%v, want one removal of the sandbox", calls.Changes())
			}
		})
	}
}

// M3: a pod of a source that no longer exists is stopped only after all existing sources have delivered.
func TestM3_PodOfAnUnknownSourceWaitsForAll(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, pod("old", "web", "u", forever))
		if n.speakLate(t).Count(critest.StopContainer) == 0 {
			t.Error("the pod is not desired, and was not stopped")
		}
	})
}

// A pod is removed while no agent runs, and the runtime no longer has it, or
// still runs it. Its files are deleted, including its volumes, and
// the files of existing pods stay.
func TestW11_NothingIsKeptOfPodsThatWentMeanwhile(t *testing.T) {
	for name, lost := range map[string]bool{"the runtime has lost it": true, "it still runs": false} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			kept := func(t *testing.T) (uids []string) {
				for _, dir := range []string{"records", "statuses", "pods"} {
					entries, err := os.ReadDir(filepath.Join(root, dir))
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range entries {
						uids = append(uids, dir+"/"+e.Name())
					}
				}
				return uids
			}
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				below := func(c *nodeagent.Config) {
					c.Store = nil
					c.Root, c.Sync.Node.LogsRoot = root, t.TempDir()
				}
				n.leave(below, pod("file", "web", "u", forever), pod("file", "web2", "v", forever))
				if lost {
					removeAll(t, n)
				}
				if got := kept(t); len(got) != 6 {
					t.Fatalf("%q are kept of two pods", got)
				}

				src := source.NewStaticPush("file")
				second := n.start([]source.Source{src}, below)
				time.Sleep(time.Minute)
				if got := kept(t); len(got) != 6 {
					t.Errorf("only %q are kept before the source has spoken", got)
				}
				set(t, src, pod("file", "web2", "v", forever))
				time.Sleep(time.Minute)
				if got := kept(t); len(got) != 3 {
					t.Errorf("%q are kept of one pod", got)
				}
				n.wantRunning(0, "u")
				n.wantRunning(1, "v")
				second.stop()
			})
		})
	}
}

// G5: the files of a removed pod cannot be deleted for a while. The deletion is retried
// with back-off, and the files of other pods are deleted meanwhile.
func TestG5_KeptContainersAreRemovedInTheEnd(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		n.leave(nil, pod("file", "web", "u", forever), pod("file", "web2", "v", forever))
		removeAll(t, n)

		busy := &busyRemains{busy: "u", until: time.Now().Add(5 * time.Minute)}
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Parts.Clean = []syncpod.Cleaner{busy} })
		set(t, src)
		time.Sleep(time.Second)
		if busy.count("v") != 1 {
			t.Errorf("the other one was removed %d times", busy.count("v"))
		}
		time.Sleep(10 * time.Minute)
		// After 0, 2, 6, 14, 30, 62 s, and then each minute.
		if got := busy.count("u"); got != 10 {
			t.Errorf("tried %d times, want 10", got)
		}
	})
}

// cleanerFunc is a function that is a syncpod.Cleaner.
type cleanerFunc func(context.Context, types.UID) error

func (f cleanerFunc) RemovePod(ctx context.Context, pod types.UID) error { return f(ctx, pod) }

// busyRemains cannot be removed of one pod for a while.
type busyRemains struct {
	busy  types.UID
	until time.Time
	mu    sync.Mutex
	tried []types.UID
}

func (b *busyRemains) RemovePod(_ context.Context, pod types.UID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tried = append(b.tried, pod)
	if pod == b.busy && time.Now().Before(b.until) {
		return errors.New("device or resource busy")
	}
	return nil
}

func (b *busyRemains) count(pod types.UID) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uid := range b.tried {
		if uid == pod {
			n++
		}
	}
	return n
}

// Directories that take hours to remove hold up those of other pods for a minute at a time: all are
// tried, and again until they are removed.
func TestHugeRemainsDoNotHoldUpOthers(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		const pods = 12
		var left []*v1.Pod
		for i := range pods {
			name := fmt.Sprintf("huge%d", i)
			left = append(left, pod("file", name, name, forever))
		}
		n.leave(nil, left...)
		removeAll(t, n)

		huge := &hugeRemains{needs: 10 * time.Minute, spent: map[types.UID]time.Duration{}}
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Parts.Clean = []syncpod.Cleaner{huge} })
		set(t, src)
		time.Sleep(5 * time.Minute)
		if got := huge.tried(); got != pods {
			t.Errorf("%d directories were tried, want %d", got, pods)
		}
		time.Sleep(2 * time.Hour)
		if got := huge.removed(); got != pods {
			t.Errorf("%d directories are removed, want %d", got, pods)
		}
	})
}

// hugeRemains need a time for each pod, which may be in several parts.
type hugeRemains struct {
	needs time.Duration
	mu    sync.Mutex
	spent map[types.UID]time.Duration
}

func (h *hugeRemains) RemovePod(ctx context.Context, pod types.UID) error {
	h.mu.Lock()
	left := h.needs - h.spent[pod]
	h.spent[pod] += 0
	h.mu.Unlock()
	began := time.Now()
	var err error
	select {
	case <-time.After(left):
	case <-ctx.Done():
		err = ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spent[pod] += time.Since(began)
	return err
}

func (h *hugeRemains) tried() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.spent)
}

func (h *hugeRemains) removed() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, spent := range h.spent {
		if spent >= h.needs {
			n++
		}
	}
	return n
}
