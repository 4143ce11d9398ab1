package podworkers

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ownGrace returns the pod's grace period itself, zero if it has none.
func ownGrace(pod *v1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil && pod.Spec.TerminationGracePeriodSeconds == nil {
		return 0
	}
	return effectiveGrace(0, pod, nil)
}

// minimumGraceSeconds is the shortest grace period.
const minimumGraceSeconds = 1

// effectiveGrace returns a pod's grace period in seconds: the shortest of the previous one,
// metadata.deletionGracePeriodSeconds, and the request's. If none of them is set, it is
// spec.terminationGracePeriodSeconds. A previous one of zero is not set, and pod may be nil. The shortest counts because
// a pod can get many stop requests. A Syncer gets only one, so in lifecycle.PodGrace the request takes precedence.
func effectiveGrace(previous int64, pod *v1.Pod, requested *int64) int64 {
	grace, given := previous, previous != 0
	atMost := func(limit *int64) {
		if limit != nil && (!given || *limit < grace) {
			grace, given = *limit, true
		}
	}
	if pod != nil {
		atMost(pod.DeletionGracePeriodSeconds)
	}
	atMost(requested)
	if !given && pod != nil && pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(grace, minimumGraceSeconds)
}

// earlier returns the deadline of a request made at now, or the previous deadline if it is earlier. If now is zero,
// there is no request.
func earlier(before, now time.Time, grace int64) time.Time {
	if now.IsZero() {
		return before
	}
	const longest = math.MaxInt64 / int64(time.Second)
	end := now.Add(time.Duration(min(grace, longest)) * time.Second)
	if before.IsZero() || end.Before(before) {
		return end
	}
	return before
}
