package podworkers

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ownGrace returns the time that the pod itself names, zero if it names none.
func ownGrace(pod *v1.Pod) int64 {
	if pod.DeletionGracePeriodSeconds == nil && pod.Spec.TerminationGracePeriodSeconds == nil {
		return 0
	}
	return effectiveGrace(0, pod, nil)
}

// minimumGraceSeconds is the least time a pod is given.
const minimumGraceSeconds = 1

// effectiveGrace returns the time a pod has to stop, in seconds: the least of
// what it had before, what its source gives it (metadata.deletionGracePeriodSeconds)
// and what is asked for; if none of them says, what its spec says
// (spec.terminationGracePeriodSeconds). A before of zero says nothing, and a nil pod
// does not either. It is the least because a pod may be asked to stop many times; stop.PodGrace of
// a Syncer sees one request and no earlier ones, so there the request comes first.
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

// earlier returns the deadline of a request made at now, or the one before if that
// is earlier. At the zero time nothing is asked for.
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
