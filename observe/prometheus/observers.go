package prometheus

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
)

type podObserver struct {
	syncpod.NopObserver
	metrics *Metrics
}

// PodRunning counts the start of a pod.
func (o podObserver) PodRunning(_ *v1.Pod, took time.Duration) {
	o.metrics.podStart.Observe(took.Seconds())
}

type workObserver struct {
	podworkers.NopObserver
	metrics *Metrics
}

// SyncEnded counts work, however it ended.
func (o workObserver) SyncEnded(w podworkers.Work, took time.Duration, _ error) {
	kind := w.UpdateType.String()
	if w.Type == podworkers.SyncTerminatedPod {
		kind = "terminated"
	}
	o.metrics.podWorker.WithLabelValues(kind).Observe(took.Seconds())
}

type listObserver struct {
	pleg.NopObserver
	metrics *Metrics

	mu   sync.Mutex
	last time.Time // when the last list began
}

// Listed counts a list, however it ended; the time when the runtime was last seen is
// that of one that did not fail.
func (o *listObserver) Listed(_ int, took time.Duration, err error) {
	now := time.Now()
	o.mu.Lock()
	before := o.last
	o.last = now.Add(-took)
	began := o.last
	o.mu.Unlock()
	o.metrics.relist.Observe(took.Seconds())
	if !before.IsZero() {
		o.metrics.interval.Observe(began.Sub(before).Seconds())
	}
	if err == nil {
		o.metrics.lastSeen.Set(float64(now.UnixNano()) / 1e9)
	}
}
