package prometheus

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
)

type podObserver struct {
	syncpod.NopObserver
	metrics *Metrics
}

// PodRunning records how long the pod took to start.
func (o podObserver) PodRunning(pod *v1.Pod, took time.Duration) {
	o.metrics.podStart.Observe(took.Seconds())
}

// VolumeSetUp counts a volume's set-up, which a kubelet counts as its mount.
func (o podObserver) VolumeSetUp(pod *v1.Pod, volume *v1.Volume, took time.Duration, err error) {
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	o.metrics.storage.WithLabelValues("false", "volume_mount", status, plugin(volume)).Observe(took.Seconds())
}

type workObserver struct {
	podworkers.NopObserver
	metrics *Metrics
	// forget is called for each pod that was removed.
	forget func(types.UID)
}

// SyncEnded measures a sync, failed or not. It ignores removals, which a kubelet's pod workers do not have.
func (o workObserver) SyncEnded(w podworkers.Work, took time.Duration, err error) {
	if w.Type == podworkers.RemovePod {
		o.forget(w.UID)
		return
	}
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

// Listed counts a list, failed or not. Only a successful list updates the time when the runtime was
// last seen.
func (o *listObserver) Listed(pods int, took time.Duration, err error) {
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
