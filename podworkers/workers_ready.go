package podworkers

// ready holds the pods whose work has not started yet, in the order in which they got it.
// Pods that are to stop come before pods that are to run, which may have to wait. The zero
// ready has none.
type ready struct {
	stops, syncs []*worker
	// syncing counts the calls of SyncPod in flight, limit is Config.MaxConcurrent.
	syncing, limit int
}

// place is where in ready a pod is.
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

// any reports whether there is a pod in line whose work can start now.
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
