package sandbox

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/creation"
)

// attempts are what a Runner remembers of a pod's sandboxes.
type attempts struct {
	// next is the attempt to make next.
	next uint32
	// unresolved are the attempts of which it is not known what has become. One that was
	// given up stays unresolved, whatever succeeds after it. Most pods never have any: nil
	// then.
	unresolved map[uint32]bool
	// reserved counts how often next was asked for in vain, with nothing listed
	// that could have its name.
	reserved creation.Refusals
}

// begin returns the attempt to make, which is at least the one wanted.
func (r *Runner) begin(pod types.UID, wanted uint32) (next uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.pods[pod]
	if a == nil {
		a = &attempts{}
		r.pods[pod] = a
	}
	if wanted > a.next {
		a.next, a.reserved = wanted, 0
	}
	return a.next
}

// made notes that an attempt has become the pod's sandbox.
func (r *Runner) made(pod types.UID, attempt uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[pod]; a != nil {
		delete(a.unresolved, attempt)
		a.next, a.reserved = max(a.next, attempt+1), 0
	}
}

// markUnresolved notes that it is not known what has become of an attempt.
func (r *Runner) markUnresolved(pod types.UID, attempt uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.pods[pod]
	if a == nil {
		return
	}
	if a.unresolved == nil {
		a.unresolved = map[uint32]bool{}
	}
	a.unresolved[attempt] = true
}

// markResolved notes that nothing more will come of an attempt.
func (r *Runner) markResolved(pod types.UID, attempt uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[pod]; a != nil {
		delete(a.unresolved, attempt)
	}
}

// unresolvedAttempts returns the unresolved attempts, the caller's own.
func (r *Runner) unresolvedAttempts(pod types.UID) map[uint32]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[pod]; a != nil {
		return maps.Clone(a.unresolved)
	}
	return nil
}

// nameReserved notes that an attempt was asked for in vain: its name is taken, and what
// has it is not listed. It reports whether the attempt is given up.
func (r *Runner) nameReserved(pod types.UID, attempt uint32) (gaveUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.pods[pod]
	if a == nil || a.next != attempt {
		return false
	}
	if !a.reserved.Count(r.config.NameReservedRetries) {
		return false
	}
	a.next = attempt + 1
	return true
}
