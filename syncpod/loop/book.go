package loop

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
)

// A book holds what has become of pods: what was reported of them, and how the work
// on them goes. That comes from the workers, also while Loop.mu is held to tell them
// something, so a book has a lock of its own: it is held for moments only, and nothing
// is called meanwhile.
type book struct {
	mu    sync.Mutex
	pages map[types.UID]*page
}

// A page is what a book holds of one pod.
type page struct {
	// status is the one last reported, or recorded by an earlier agent. Nil if there
	// is none.
	status *v1.PodStatus
	// untold: status is to be delivered, for it is an earlier agent's, which may have
	// ended before it was, or the Loop's own.
	untold bool
	// drained: the pod stops because the agent is to end, which is not to be
	// remembered of it.
	drained bool

	// leftover: something may be kept of the pod that is not known here, by an earlier
	// agent or because it could not be deleted.
	leftover bool
	// due is when the next attempt may be made to delete that after one that failed, and
	// pause how long that is put off.
	due   time.Time
	pause time.Duration

	phase podworkers.Phase
	// working counts the calls in flight, worked is set with the first of them.
	working int
	worked  bool
	// acted: the call in flight has changed something.
	acted bool
	// err is what the last work came to, and since when all have failed.
	err   error
	since time.Time
	// stopping: the pod, or what the runtime has of it, is being stopped without its
	// definition.
	stopping bool
	// orphan: no source wanted the pod when that began, so that what is left of it has to
	// go before a pod of its UID may come, which would be taken to have run already.
	orphan bool
	// stopped is when the pod was last found to have nothing left that runs.
	stopped time.Time
}

// at returns the page of a pod. It must be called with mu held.
func (b *book) at(uid types.UID) *page {
	p := b.pages[uid]
	if p == nil {
		p = &page{}
		b.pages[uid] = p
	}
	return p
}

// read returns what a book says of a pod.
func (b *book) read(uid types.UID) page {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pages[uid]; p != nil {
		return *p
	}
	return page{}
}

// write changes what a book says of a pod.
func (b *book) write(uid types.UID, change func(*page)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b.at(uid))
}

func (b *book) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pages, uid)
}

// uids returns the pods there is a page of, in order.
func (b *book) uids() []types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.pages))
}

// kept reports whether anything may be kept of the pod that outlives the agent.
func (p *page) kept() bool { return p.status != nil || p.leftover }

// over reports whether the pod was reported to have ended for good.
func (p *page) over() bool { return p.status != nil && isOver(p.status.Phase) }

func isOver(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// busy reports whether the pod is on its way from one state to another.
func (p *page) busy() bool {
	switch {
	case p.working > 0 || p.err != nil || p.phase == podworkers.Terminating:
		return true
	case p.phase == podworkers.Syncing:
		return p.status == nil || p.status.Phase == v1.PodPending
	}
	return false
}

// ended notes how work has ended.
func (p *page) ended(w podworkers.Work, err error, at time.Time) {
	p.working--
	if err != nil && p.err == nil {
		p.since = at
	}
	p.err = err
	if err == nil && (w.Type == podworkers.SyncTerminatingRuntimePod || w.Type == podworkers.SyncTerminatingPod) {
		p.stopped, p.stopping = at, false // with its definition, if that came meanwhile
	}
}
