package podworkers

// ready is the queue of the pods that have work to start. Pods that must stop come before pods that
// must be synced, which may have to wait because of MaxConcurrent. The zero value is empty.
type ready struct {
	stops, syncs []*worker
	// syncing counts the calls to SyncPod in flight, limit is Config.MaxConcurrent.
	syncing, limit int
}

// queueID is a pod's queue in ready.
type queueID uint8

const (
	notQueued queueID = iota
	stopQueue
	syncQueue
)

// add enqueues a pod. A pod in the sync queue that must stop moves to the stop queue; take
// skips its stale entry.
func (r *ready) add(p *worker) {
	switch {
	case p.phase == Syncing && p.queued == notQueued:
		p.queued = syncQueue
		r.syncs = append(r.syncs, p)
	case p.phase != Syncing && p.queued != stopQueue:
		p.queued = stopQueue
		r.stops = append(r.stops, p)
	}
}

// any reports whether the work of a queued pod can start now.
func (r *ready) any() bool {
	return len(r.stops) > 0 || len(r.syncs) > 0 && (r.limit == 0 || r.syncing < r.limit)
}

// take dequeues a pod. It returns nil if the entry is stale: the pod has moved to the
// other queue.
func (r *ready) take() *worker {
	queue, from := &r.stops, stopQueue
	if len(r.stops) == 0 {
		queue, from = &r.syncs, syncQueue
	}
	p := (*queue)[0]
	(*queue)[0] = nil
	if *queue = (*queue)[1:]; len(*queue) == 0 {
		*queue = nil
	}
	if p.queued != from {
		return nil
	}
	p.queued = notQueued
	return p
}
