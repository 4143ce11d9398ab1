package syncpod

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
)

const (
	// minStopSeconds is the least time a container has between its stop signal and
	// its end, whatever is left of the grace period.
	minStopSeconds = 2
	// maxGraceSeconds keeps a grace period within what a Duration holds.
	maxGraceSeconds = 1 << 31
	// runtimePodGrace is the time of a pod of which no spec is known.
	runtimePodGrace = time.Second
)

func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), maxGraceSeconds)) * time.Second
}

// podGrace returns the time a pod has to end: what it is asked to be, or what
// its deletion or its spec gives it, or else the least a container has.
//
// That time only gets shorter. Each place that keeps it holds to that: podworkers/grace.go
// for the requests, memory.Pod.Hasten for the requests to an earlier agent, and
// memory.KillDeadlines for containers that stop while the pod runs on.
func podGrace(pod *v1.Pod, asked *int64) time.Duration {
	switch {
	case asked != nil:
		return seconds(*asked)
	case pod.DeletionGracePeriodSeconds != nil:
		return seconds(*pod.DeletionGracePeriodSeconds)
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return seconds(*pod.Spec.TerminationGracePeriodSeconds)
	}
	return seconds(minStopSeconds)
}

// containerGrace returns the time one container has to end. One that failed a
// probe has what that probe gives it (KEP-2238). Of a pod that is deleted no
// container ends alone.
func containerGrace(pod *v1.Pod, c *v1.Container, why actions.Reason) time.Duration {
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
	return podGrace(pod, nil)
}

// stopTimeout returns the whole seconds to give StopContainer at now. One that
// was sent its signal before has no more than what is left.
func stopTimeout(deadline, now time.Time, signalled bool) int64 {
	left := int64((deadline.Sub(now) + time.Second - 1) / time.Second)
	if signalled {
		return max(left, 0)
	}
	return max(left, minStopSeconds)
}
