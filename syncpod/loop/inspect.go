package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/pleg"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/store"
)

// inspections reads statuses for a Syncer. It inspects pods through the watcher, so that the cache
// has the newest status and no pod is inspected twice.
type inspections struct {
	Reader
	loop *Loop
}

// PodStatus inspects a pod. While the watcher considers the runtime unavailable, it still calls the
// runtime: the pod may wait only for this call.
func (i inspections) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	since := time.Now()
	status, err := i.loop.watcher.GetNewerThan(ctx, uid, since)
	if _, unavailable := errors.AsType[*pleg.UnavailableError](err); unavailable {
		i.loop.states.update(uid, func(s *podState) { s.inspectedAt = time.Time{} }) // the cache does not have this status
		return i.Reader.PodStatus(ctx, uid, prev)
	}
	if err == nil {
		i.loop.states.update(uid, func(s *podState) { s.inspectedAt = since })
	}
	return status, err
}

// removed reads the status of a pod that was removed from the runtime.
type removed struct {
	Reader
	loop *Loop
}

func (r removed) PodStatus(ctx context.Context, uid types.UID, _ *runtime.PodStatus) (*runtime.PodStatus, error) {
	return r.loop.fresh(ctx, uid, time.Now())
}

// fresh returns the status of a pod from a read since the given time. While the runtime is
// unavailable it waits: only the watcher checks whether the runtime is back, however many pods
// there are, and then all of them continue at once.
func (l *Loop) fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	for {
		status, err := l.watcher.GetNewerThan(ctx, uid, since)
		if _, unavailable := errors.AsType[*pleg.UnavailableError](err); !unavailable {
			return status, err
		}
		select {
		case <-l.awaitRuntime():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// unreadable records an event if an inspection failed, as a kubelet does. If the runtime is unavailable, it
// records none, because the pod is not the cause.
func (l *Loop) unreadable(uid types.UID, err error) {
	if pod := l.table.find(uid); pod != nil && !errors.Is(err, cri.ErrUnavailable) {
		l.table.podEvent(pod, syncpod.EventFailedSync, "error determining status: "+err.Error())
	}
}

// awaitRuntime returns a channel that is closed when the runtime is available.
func (l *Loop) awaitRuntime() <-chan struct{} {
	back := l.runtime.close()
	if _, err := l.watcher.Available(); err == nil {
		l.runtime.open()
	}
	return back
}

// availableChanged is called by the watcher when the runtime becomes unavailable or available.
func (l *Loop) availableChanged(err error) {
	if err != nil {
		l.runtime.close()
		return
	}
	l.runtime.open()
	l.table.listed.Store(true)
	l.before.forgetOthers(l.watcher.Pods())
	l.table.reconcile.raise()
	l.table.housekeeping.raise()
}

// gate is open or closed. The zero gate is open.
type gate struct {
	mu sync.Mutex
	// opened is closed when the gate opens, and nil while it is open.
	opened chan struct{}
}

// close closes the gate if it is open, and returns a channel that is closed when it opens again.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	return g.opened
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
	}
	g.opened = nil
}

// reader uses the statuses from an earlier agent for each pod's first
// inspection.
type reader struct {
	pleg.Reader
	before *seenBefore
}

// List returns after an earlier agent's statuses were loaded, because inspections depend on them.
func (r reader) List(ctx context.Context) ([]*podreader.ListedPod, error) {
	pods, err := r.Reader.List(ctx)
	if err == nil {
		err = r.before.await(ctx)
	}
	return pods, err
}

func (r reader) Inspect(ctx context.Context, listed *podreader.ListedPod, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := r.Reader.Inspect(ctx, listed, r.known(listed.UID, prev))
	return r.seen(status, err)
}

func (r reader) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := r.Reader.PodStatus(ctx, uid, r.known(uid, prev))
	return r.seen(status, err)
}

func (r reader) known(uid types.UID, prev *runtime.PodStatus) *runtime.PodStatus {
	if prev != nil {
		return prev
	}
	return r.before.of(uid)
}

func (r reader) seen(status *runtime.PodStatus, err error) (*runtime.PodStatus, error) {
	if err == nil && status != nil {
		r.before.forget(status.UID)
	}
	return status, err
}

// seenBefore holds the statuses that an earlier agent has recorded, until this agent has inspected
// each pod. The status of a sandbox or container stays valid while its state is the same, as with
// this agent's own statuses; IDs are not reused. So an agent restart does not inspect everything
// again.
type seenBefore struct {
	// known is closed when all readable statuses are loaded.
	known chan struct{}
	mu    sync.Mutex
	pods  map[types.UID]*runtime.PodStatus
}

func newSeenBefore() *seenBefore { return &seenBefore{known: make(chan struct{})} }

func (s *seenBefore) add(statuses []store.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = make(map[types.UID]*runtime.PodStatus, len(statuses))
	for _, stored := range statuses {
		if stored.Runtime != nil {
			s.pods[stored.UID] = stored.Runtime
		}
	}
}

// restored marks the statuses as loaded.
func (s *seenBefore) restored() { close(s.known) }

func (s *seenBefore) await(ctx context.Context) error {
	select {
	case <-s.known:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the stored statuses of pods are still being read: %w", context.Cause(ctx))
	}
}

// of returns a pod's recorded status, nil if there is none.
func (s *seenBefore) of(uid types.UID) *runtime.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// forget drops the status of a pod that this agent has inspected.
func (s *seenBefore) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// forgetOthers drops the statuses of all pods that no longer exist.
func (s *seenBefore) forgetOthers(than []pleg.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[types.UID]*runtime.PodStatus, len(s.pods))
	for _, p := range than {
		if seen := s.pods[p.UID]; seen != nil {
			there[p.UID] = seen
		}
	}
	s.pods = there
}
