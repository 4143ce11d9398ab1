package podworkers

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// changes are the changes that a goroutine makes while it holds the lock. It reports them after it has released the
// lock.
type changes struct {
	// now is the time of the changes.
	now time.Time
	// forgotten are the last phase changes of forgotten pods. They are reported before seen, which may have new pods with their UIDs.
	forgotten []moved
	seen      []types.UID
	moves     []moved
	abandoned []Work
	failed    *failure
}

// moved is a pod's change of phase.
type moved struct {
	uid      types.UID
	from, to Phase
}

// failure is a failed call.
type failure struct {
	work    Work
	err     error
	retryIn time.Duration
}

// report reports the changes to the Tracker, the Observer and the log of the Config. The lock is not held.
func (c *changes) report(to *Config) {
	reportMoves(to, c.forgotten)
	for _, uid := range c.seen {
		to.Tracker.PodAdded(uid)
		to.Observer.PodSeen(uid, c.now)
	}
	reportMoves(to, c.moves)
	for _, work := range c.abandoned {
		to.Log.Info("work was cancelled and does not return, going on without it", "podUID", work.UID, "work", work.Type.String())
		to.Observer.SyncAbandoned(work)
	}
	if c.failed != nil {
		to.Log.Error(c.failed.err, "work failed", "podUID", c.failed.work.UID, "work", c.failed.work.Type.String(), "retryIn", c.failed.retryIn)
	}
}

// anyFinished reports whether a pod has finished: Desired may have it removed from now on.
func (c *changes) anyFinished() bool {
	return slices.ContainsFunc(c.moves, func(m moved) bool { return m.to == Finished })
}

func reportMoves(to *Config, moves []moved) {
	for _, m := range moves {
		to.Log.Info("pod moved on", "podUID", m.uid, "from", m.from.String(), "to", m.to.String())
		to.Tracker.PhaseChanged(m.uid, m.from, m.to)
		to.Observer.PhaseChanged(m.uid, m.from, m.to)
	}
}
