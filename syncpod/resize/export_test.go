package resize

import v1 "k8s.io/api/core/v1"

// What tests of the decisions call.
type (
	Allocation = allocation
	Pending    = pending
)

var (
	AllocationOf = allocationOf
	Order        = order
)

func (a allocation) Apply(pod *v1.Pod) *v1.Pod { return a.applyTo(pod) }

func (a allocation) Equal(b allocation) bool { return a.equal(b) }

// DecideWith replaces the decision.
func (a *Allocator) DecideWith(f func(Request) Verdict) { a.decide = f }
