package podworkers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// scripted is a Syncer that a test controls, and that records its calls. It fails the test if a pod has two concurrent
// calls and none of them was abandoned.
type scripted struct {
	NopObserver
	t *testing.T
	// do answers a call; nil succeeds at once.
	do func(ctx context.Context, w Work) (Result, error)
	// fresh returns a status in place of the runtime; with nil every read returns one.
	fresh func(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error)

	// told is called with each call of the observer, and abandoned with each report of abandoned work.
	told, abandoned func()

	mu    sync.Mutex
	trace []call
	busy  map[types.UID]inFlight
	moves []string
	seen  []types.UID
	// lives are moves and seen together, in the order of the observer's calls.
	lives []string
	ended []time.Duration
}

// inFlight is a call that has not returned.
type inFlight struct {
	ctx      context.Context
	revision uint64
}

// call is one call of the Syncer.
type call struct {
	Work
	at     time.Time
	status *runtime.PodStatus
}

func (s *scripted) sync(ctx context.Context, w Work, status *runtime.PodStatus) (Result, error) {
	s.mu.Lock()
	s.trace = append(s.trace, call{w, time.Now(), status})
	if other, twice := s.busy[w.UID]; twice && context.Cause(other.ctx) != ErrInterrupted {
		s.t.Errorf("%s: work %d begins while %d is in flight", w.UID, w.revision, other.revision)
	}
	s.busy[w.UID] = inFlight{ctx, w.revision}
	s.mu.Unlock()
	defer s.leave(w)
	if s.do == nil {
		return Result{}, nil
	}
	return s.do(ctx, w)
}

func (s *scripted) leave(w Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[w.UID].revision == w.revision {
		delete(s.busy, w.UID)
	}
}

func (s *scripted) SyncPod(ctx context.Context, w Work, status *runtime.PodStatus) (Result, error) {
	return s.sync(ctx, w, status)
}

func (s *scripted) SyncTerminatingPod(ctx context.Context, w Work, status *runtime.PodStatus) error {
	_, err := s.sync(ctx, w, status)
	return err
}

func (s *scripted) SyncTerminatingRuntimePod(ctx context.Context, w Work, status *runtime.PodStatus) error {
	if w.Pod != nil || w.RuntimePod == nil {
		s.t.Errorf("%s: stopping a runtime pod with pod %v, runtime pod %v", w.UID, w.Pod, w.RuntimePod)
	}
	_, err := s.sync(ctx, w, status)
	return err
}

func (s *scripted) SyncTerminatedPod(ctx context.Context, w Work, status *runtime.PodStatus) error {
	if w.Pod == nil {
		s.t.Errorf("%s: cleaning up without a pod", w.UID)
	}
	_, err := s.sync(ctx, w, status)
	return err
}

func (s *scripted) RemovePod(ctx context.Context, w Work, status *runtime.PodStatus) error {
	if (w.Pod == nil) == (w.RuntimePod == nil) || w.Removal == NotRemoved {
		s.t.Errorf("%s: removing pod %v, runtime pod %v, because %q", w.UID, w.Pod, w.RuntimePod, w.Removal)
	}
	_, err := s.sync(ctx, w, status)
	return err
}

func (s *scripted) GetNewerThan(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	if s.fresh == nil {
		return &runtime.PodStatus{UID: uid, ObservedAt: time.Now()}, nil
	}
	return s.fresh(ctx, uid, since)
}

func (s *scripted) SyncAbandoned(Work) {
	if s.abandoned != nil {
		s.abandoned()
	}
}

func (s *scripted) PodSeen(uid types.UID, _ time.Time) {
	if s.told != nil {
		s.told()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, uid)
	s.lives = append(s.lives, fmt.Sprintf("%s seen", uid))
}

func (s *scripted) PhaseChanged(uid types.UID, from, to Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves = append(s.moves, fmt.Sprintf("%s %v-%v", uid, from, to))
	s.lives = append(s.lives, s.moves[len(s.moves)-1])
}

func (s *scripted) SyncEnded(_ Work, took time.Duration, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, took)
}

// calls returns the calls for a pod, in order.
func (s *scripted) calls(uid types.UID) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var of []call
	for _, c := range s.trace {
		if c.UID == uid {
			of = append(of, c)
		}
	}
	return of
}

func (s *scripted) types(uid types.UID) []WorkType {
	var types []WorkType
	for _, c := range s.calls(uid) {
		types = append(types, c.Type)
	}
	return types
}

// bubble has Workers that run inside a synctest bubble, and their scripted Syncer.
type bubble struct {
	*Workers
	*scripted
	t      *testing.T
	start  time.Time
	cancel context.CancelFunc
	over   chan struct{}
}

// inBubble runs a test with Workers that run. When it returns they detach, and
// every goroutine must end.
func inBubble(t *testing.T, c Config, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, busy: map[types.UID]inFlight{}}
		c.Syncer, c.Status, c.Observer = s, s, s
		w, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		b := &bubble{Workers: w, scripted: s, t: t, start: time.Now(), cancel: cancel, over: make(chan struct{})}
		go func() {
			defer close(b.over)
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(b)
		b.stop()
	})
}

// stop detaches the workers and waits until they have returned.
func (b *bubble) stop() {
	b.cancel()
	<-b.over
}

// update passes an update to the workers, and waits until all goroutines are blocked.
func (b *bubble) update(u Update) {
	b.t.Helper()
	if err := b.UpdatePod(u); err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

// pass lets time pass, and waits until all goroutines are blocked.
func (b *bubble) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bubble) now() time.Duration { return time.Since(b.start) }

// wants checks the calls for a pod so far.
func (b *bubble) wants(uid types.UID, want ...WorkType) {
	b.t.Helper()
	if got := b.scripted.types(uid); !slices.Equal(got, want) {
		b.t.Fatalf("at %v: calls for %s %v, want %v", b.now(), uid, got, want)
	}
}

// finished checks that a pod has no work left.
func (b *bubble) finished(uid types.UID) {
	b.t.Helper()
	if !b.State(uid).ShouldBeFinished || b.State(uid).MayHaveRunningContainers {
		b.t.Fatalf("at %v: %s is not finished, calls %v", b.now(), uid, b.scripted.types(uid))
	}
}

// empty checks that the workers keep no pod.
func (b *bubble) empty() {
	b.t.Helper()
	synctest.Wait()
	w := b.Workers
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.scheduler
	for what, n := range map[string]int{
		"pods": len(s.pods), "set": len(s.set.pods), "requests": len(s.requests.waiting), "timers": len(s.timers.heap),
		"stops": len(s.ready.stops), "syncs": len(s.ready.syncs), "syncing": s.ready.syncing,
		"static turns": len(s.set.statics.running), "static lines": len(s.set.statics.waiting),
	} {
		if n != 0 {
			b.t.Errorf("%d left in %s, want 0", n, what)
		}
	}
}

func create(p *v1.Pod) Update { return Update{Type: Create, Pod: p} }

func killWithin(p *v1.Pod, seconds int64) Update { return kill(p, 0, &seconds) }

var errBroken = errors.New("broken")
