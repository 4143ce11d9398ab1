package loop

import "k8s.io/apimachinery/pkg/types"

// A cleanup is what is being done to clean the node up after a pod that the workers do not
// know, or not any more. A new pod with its UID waits until nothing is: by what is left
// of the old one it would be taken to have had its run.
//
//	noCleanup ─> removing            the workers have forgotten it, or it is dead and not desired
//	noCleanup ─> orphaned            it runs, and no source wants it
//	orphaned  ─> removing            it has stopped, and is still in the runtime or desired again
//	removing  ─> noCleanup           the runtime has nothing of it any more
//	removing  ─> deleting            so it is with a pod that the workers did not know, and that is desired again
//	noCleanup, orphaned ─> deleting  only records of it may be left, and it is not desired
//	deleting  ─> no podState         nothing is left
//	deleting  ─> where it began      a deletion failed: it is tried again at podState.retryAt
//
// It never fails for good. An agent that ends leaves what is not done to the next one.
type cleanup int

const (
	// noCleanup: nothing is being done. So it is with pods that the workers know, and with
	// those of which an earlier agent has left records.
	noCleanup cleanup = iota
	// orphaned: it is stopped without its definition, as long as podState.stopping, or was.
	orphaned
	// removing: its sandboxes and containers are being removed from the runtime.
	removing
	// deleting: its directory, its record and its status are being deleted.
	deleting
)

// inProgress reports whether a goroutine is at it, which says when it is done.
func (c cleanup) inProgress() bool { return c == removing || c == deleting }

// setCleanup notes what is being done to clean up after a pod. It must be called with mu held.
func (l *Loop) setCleanup(uid types.UID, to cleanup) {
	l.states.update(uid, func(s *podState) { s.cleanup = to })
}

// endCleanup notes that the goroutine that cleaned up after a pod is done.
func (l *Loop) endCleanup(uid types.UID, to cleanup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setCleanup(uid, to)
}
