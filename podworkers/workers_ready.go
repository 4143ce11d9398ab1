package podworkers

// ready is the queue of the pods whose work has not started. Pods that must stop come before pods that
// must run, which may have to wait for MaxConcurrent. The zero value is empty.
type ready struct {
	stops, syncs []*worker
	// syncing counts the calls of SyncPod in flight, limit is Config.MaxConcurrent.
	syncing, limit int
}

// place is the queue of a pod in ready.
type place uint8

const (
	nowhere place = iota
	inStops
	inSyncs
)

// add enqueues a pod. A pod queued to sync that must stop moves to the stop queue; next
// skips the stale entry.
func (r *ready) add(p *worker) {
	switch {
	case p.phase == Syncing && p.queued == nowhere:
		p.queued = inSyncs
		r.syncs = append(r.syncs, p)
	case p.phase != Syncing && p.queued != inStops:
		p.queued = inStops
		r.stops = append(r.stops, p)
	}
}

// any reports whether the work of a queued pod can start now.
func (r *ready) any() bool {
	return len(r.stops) > 0 || len(r.syncs) > 0 && (r.limit == 0 || r.syncing < r.limit)
}

// next dequeues a pod. It returns nil if the entry is stale: the pod has moved to the
// other queue.
func (r *ready) next() *worker {
	line, from := &r.stops, inStops
	if len(r.stops) == 0 {
		line, from = &r.syncs, inSyncs
	}
	p := (*line)[0]
	(*line)[0] = nil
	if *line = (*line)[1:]; len(*line) == 0 {
		*line = nil
	}
	if p.queued != from {
		return nil
	}
	p.queued = nowhere
	return p
}
