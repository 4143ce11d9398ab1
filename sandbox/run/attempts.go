package run

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/creation"
)

// attempts are the attempt numbers for a pod's sandboxes.
type attempts struct {
	// next is the next attempt's number.
	next uint32
	// unresolved are the attempts whose results are unknown. An attempt that was given up stays
	// unresolved, even if a later one succeeds. Nil for most pods.
	unresolved map[uint32]bool
	// reserved counts the failed requests for next while no listed sandbox had its name.
	reserved creation.Refusals
}

// begin returns the next attempt, at least the given one.
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

// made records that an attempt has become the pod's sandbox.
func (r *Runner) made(pod types.UID, attempt uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[pod]; a != nil {
		delete(a.unresolved, attempt)
		a.next, a.reserved = max(a.next, attempt+1), 0
	}
}

// markUnresolved records that an attempt's result is unknown.
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

// markResolved records that an attempt will not create a sandbox any more.
func (r *Runner) markResolved(pod types.UID, attempt uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[pod]; a != nil {
		delete(a.unresolved, attempt)
	}
}

// unresolvedAttempts returns the unresolved attempts, copied.
func (r *Runner) unresolvedAttempts(pod types.UID) map[uint32]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[pod]; a != nil {
		return maps.Clone(a.unresolved)
	}
	return nil
}

// nameReserved records a failed request for an attempt: its name is reserved, and no listed sandbox has it. It
// reports whether the attempt is given up.
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
