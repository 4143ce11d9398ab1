package podworkers

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ownGrace returns the grace period of the pod itself, zero if it has none.
func ownGrace(pod *v1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil && pod.Spec.TerminationGracePeriodSeconds == nil {
		return 0
	}
	return effectiveGrace(0, pod, nil)
}

// minimumGraceSeconds is the shortest grace period.
const minimumGraceSeconds = 1

// effectiveGrace returns the time that a pod has to stop, in seconds: the shortest of the time before,
// metadata.deletionGracePeriodSeconds, and the time of the request. If none of them is set, it is
// spec.terminationGracePeriodSeconds. A before of zero and a nil pod set nothing. The shortest counts because
// a pod can get many stop requests. stop.PodGrace of a Syncer sees only one request, which therefore comes first there.
func effectiveGrace(before int64, pod *v1.Pod, asked *int64) int64 {
	grace, given := before, before != 0
	atMost := func(limit *int64) {
		if limit != nil && (!given || *limit < grace) {
			grace, given = *limit, true
		}
	}
	if pod != nil {
		atMost(pod.DeletionGracePeriodSeconds)
	}
	atMost(asked)
	if !given && pod != nil && pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return max(grace, minimumGraceSeconds)
}

// earlier returns the deadline of a request made at now, or the deadline before if it is earlier. A now of
// zero is no request.
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
