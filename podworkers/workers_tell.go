package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// followUp is one change of the Workers. It collects, while the lock is held, what
// is to be done after it was released: what the Observer and the log are to be
// told.
type followUp struct {
	// now is the time of the change.
	now time.Time
	// forgotten are the last steps of pods, after which others of their UIDs are seen.
	forgotten []moved
	seen      []types.UID
	moved     []moved
	abandoned []Work
	failed    *failure
}

// moved is a pod's step from one phase to another.
type moved struct {
	uid      types.UID
	from, to Phase
}

// failure is work that is to be done again.
type failure struct {
	work    Work
	err     error
	retryIn time.Duration
}

// unlock releases the lock, tells what has happened while it was held, and sees
// to it that somebody takes the work of pods that have become ready.
func (w *Workers) unlock(f *followUp) {
	spawn := w.stage == running && !w.hungry && w.waiting()
	if spawn {
		w.hungry = true
		w.running.Add(1)
	}
	w.mu.Unlock()
	w.tell(f)
	if spawn {
		go w.work()
	}
}

func (w *Workers) tellMoves(moves []moved) {
	for _, m := range moves {
		w.config.Log.Info("pod moved on", "podUID", m.uid, "from", m.from.String(), "to", m.to.String())
		w.config.Observer.PhaseChanged(m.uid, m.from, m.to)
	}
}

func (w *Workers) tell(f *followUp) {
	w.tellMoves(f.forgotten)
	for _, uid := range f.seen {
		w.config.Observer.PodSeen(uid, f.now)
	}
	w.tellMoves(f.moved)
	for _, work := range f.abandoned {
		w.config.Log.Info("work was cancelled and does not return, going on without it", "podUID", work.UID, "work", work.Type.String())
		w.config.Observer.SyncAbandoned(work)
	}
	if f.failed != nil {
		w.config.Log.Error(f.failed.err, "work failed", "podUID", f.failed.work.UID, "work", f.failed.work.Type.String(), "retryIn", f.failed.retryIn)
	}
}
