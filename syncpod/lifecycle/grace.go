package lifecycle

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
)

const (
	// minSeconds is the least time that a container has between its stop signal and
	// SIGKILL, even if the grace period has expired.
	minSeconds = 2
	// maxSeconds bounds a grace period so that a Duration can hold it.
	maxSeconds = 1 << 31
	// unknownPodGrace is the grace period of a pod without a known spec.
	unknownPodGrace = time.Second
)

func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), maxSeconds)) * time.Second
}

// PodGrace returns a pod's own grace period: that of its deletion, or else that of its spec, or else 2 s. A nil pod has no known
// spec. Requests for another one become a deadline, in podworkers/grace.go.
//
// A grace period that has begun is never extended. Three places enforce this: podworkers/grace.go for the requests,
// memory.Pod.Hasten for the requests to an earlier agent, and memory.KillDeadlines for containers that stop while the
// pod keeps running.
func PodGrace(pod *v1.Pod) time.Duration {
	switch {
	case pod == nil:
		return unknownPodGrace
	case pod.DeletionGracePeriodSeconds != nil:
		return seconds(*pod.DeletionGracePeriodSeconds)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return seconds(*pod.Spec.TerminationGracePeriodSeconds)
	}
	return seconds(minSeconds)
}

// ContainerGrace returns the grace period of a container that stops while its pod keeps running.
// A container that failed a probe has that probe's grace period, if the probe has one
// (KEP-2238).
func ContainerGrace(pod *v1.Pod, c *v1.Container, why actions.Reason) time.Duration {
	var probe *v1.Probe
	switch why {
	case actions.LivenessFailed:
		probe = c.LivenessProbe
	case actions.StartupFailed:
		probe = c.StartupProbe
	}
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return seconds(*probe.TerminationGracePeriodSeconds)
	}
	return PodGrace(pod)
}

// timeoutSeconds returns the timeout for a StopContainer call at now. A container that has
// its stop signal already gets no more than the rest of its grace period.
func timeoutSeconds(deadline, now time.Time, signalled bool) int64 {
	left := int64((deadline.Sub(now) + time.Second - 1) / time.Second)
	if signalled {
		return max(left, 0)
	}
	return max(left, minSeconds)
}
