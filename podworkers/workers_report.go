package podworkers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// change is one change of the Workers: one goroutine fills it with the lock held, and reports it without.
type change struct {
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

// failure is work that failed.
type failure struct {
	work    Work
	err     error
	retryIn time.Duration
}

// report reports the change to the Observer and the log of the Config. The lock is not held.
func (c *change) report(to *Config) {
	reportMoves(to, c.forgotten)
	for _, uid := range c.seen {
		to.Observer.PodSeen(uid, c.now)
	}
	reportMoves(to, c.moved)
	for _, work := range c.abandoned {
		to.Log.Info("work was cancelled and does not return, going on without it", "podUID", work.UID, "work", work.Type.String())
		to.Observer.SyncAbandoned(work)
	}
	if c.failed != nil {
		to.Log.Error(c.failed.err, "work failed", "podUID", c.failed.work.UID, "work", c.failed.work.Type.String(), "retryIn", c.failed.retryIn)
	}
}

func reportMoves(to *Config, moves []moved) {
	for _, m := range moves {
		to.Log.Info("pod moved on", "podUID", m.uid, "from", m.from.String(), "to", m.to.String())
		to.Observer.PhaseChanged(m.uid, m.from, m.to)
	}
}
