package loop

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
)

// observer writes down how the work on pods goes, and tells the embedder's.
type observer struct{ *Loop }

var _ podworkers.Observer = observer{}

func (o observer) PodSeen(uid types.UID, at time.Time) {
	o.book.write(uid, func(p *page) { p.phase = podworkers.Syncing })
	o.config.Workers.Observer.PodSeen(uid, at)
}

// PhaseChanged has what is finished tidied up at once.
func (o observer) PhaseChanged(uid types.UID, from, to podworkers.Phase) {
	o.book.write(uid, func(p *page) { p.phase = to })
	if to == podworkers.Finished {
		o.tidy.raise()
	}
	o.config.Workers.Observer.PhaseChanged(uid, from, to)
}

func (o observer) SyncStarted(w podworkers.Work) {
	o.book.write(w.UID, func(p *page) { p.working++ })
	o.config.Workers.Observer.SyncStarted(w)
}

func (o observer) SyncEnded(w podworkers.Work, took time.Duration, err error) {
	o.book.write(w.UID, func(p *page) { p.ended(w, err, time.Now()) })
	if w.Type == podworkers.SyncTerminatingRuntimePod {
		o.watcher.Look(w.UID) // nobody else will ask
	}
	if w.Type == podworkers.SyncTerminatingRuntimePod && err == nil {
		o.tidy.raise() // after a failure it would have the workers try again without a pause
	}
	o.config.Workers.Observer.SyncEnded(w, took, err)
}

func (o observer) SyncAbandoned(w podworkers.Work) { o.config.Workers.Observer.SyncAbandoned(w) }
