package loop

import (
	"k8s.io/apimachinery/pkg/types"
)

// A cleanup says how far the node is cleaned up after a pod that the workers do not have,
// or not any more. A new pod with its UID waits until that is done: it would be taken to
// have had its run by what is left.
//
//	notCleaned ─> removing            the workers have forgotten it, or it is dead and not desired
//	notCleaned ─> orphaned            it runs, and no source wants it
//	orphaned   ─> removing            it has stopped, and is still in the runtime or desired again
//	removing   ─> notCleaned          the runtime has nothing of it any more
//	removing   ─> deleting            the same of what the workers did not have, and it is desired again
//	notCleaned, orphaned ─> deleting  nobody has it, and something of it may be recorded
//	deleting   ─> no state            nothing is left
//	deleting   ─> where it began      a deletion failed: it is tried again at podState.retryAt
//
// It never fails for good. An agent that ends leaves what is not done to the next one.
type cleanup int

const (
	// notCleaned: nothing is being done. It is the state of pods that the workers have,
	// and of those of which there are records at most, once they are not desired.
	notCleaned cleanup = iota
	// orphaned: it is stopped without its definition, as long as podState.stopping, or was.
	orphaned
	// removing: its sandboxes and containers are being removed from the runtime.
	removing
	// deleting: its directory, its record and its status are being deleted.
	deleting
)

// inProgress reports whether a goroutine is at it, which says when it is done.
func (c cleanup) inProgress() bool { return c == removing || c == deleting }

// setCleanup notes how far the node is cleaned up after a pod. It must be called with mu held.
func (l *Loop) setCleanup(uid types.UID, to cleanup) {
	l.states.update(uid, func(s *podState) { s.cleanup = to })
}

// endCleanup notes that the goroutine that cleaned up after a pod is done.
func (l *Loop) endCleanup(uid types.UID, to cleanup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setCleanup(uid, to)
}

// desiredByNow reports whether a source wants a pod with that UID by now.
func (l *Loop) desiredByNow(uid types.UID) bool { return l.desired().uids()[uid] }
