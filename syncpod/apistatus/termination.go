package apistatus

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
)

// LostExitCode is the exit code of a container that nobody saw end: that of one
// killed by SIGKILL.
const LostExitCode = 137

// Lost returns what stands in a runtime status for an instance that is known to have
// been started, and of which the runtime has nothing any more: it has ended with
// [LostExitCode], for the reason [StatusUnknown]. In an [Input] it is reported as that,
// without the ID of an instance, for nobody has seen this end.
func Lost(c runtime.ContainerStatus) runtime.ContainerStatus {
	c.State, c.ExitCode, c.Reason, c.Message = runtime.ContainerExited, LostExitCode, string(StatusUnknown), lostWhileRunning
	return c
}

// What is said where no observation is left. Monitoring looks for these texts.
const (
	lostWhileTerminating = "The container could not be located when the pod was terminated"
	lostWhileRunning     = "The container could not be located when the pod was deleted.  The container used to be Running"
	initForgotten        = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
)

// termination is how an instance ended: as it was first reported, or else as the
// runtime has it. A runtime that lost its records may have another answer later
// (kubernetes #104107, #122160). The ID is that of the instance, as text.
func (k *subject) termination(c *runtime.ContainerStatus, id string) *v1.ContainerStateTerminated {
	if seen := k.seen(c.ID); seen != nil {
		return seen.DeepCopy()
	}
	if c.Reason == string(StatusUnknown) {
		return lost(c.Message)
	}
	return &v1.ContainerStateTerminated{
		ExitCode:    c.ExitCode,
		Reason:      c.Reason,
		Message:     c.Message,
		StartedAt:   apiTime(c.StartedAt),
		FinishedAt:  apiTime(c.FinishedAt),
		ContainerID: id,
	}
}

// seen returns how that instance was reported to have ended, nil if it was not.
// What was made up names no instance, so it is never found here.
func (k *subject) seen(id runtime.ContainerID) *v1.ContainerStateTerminated {
	if k.before == nil {
		return nil
	}
	for _, t := range [...]*v1.ContainerStateTerminated{k.before.State.Terminated, k.before.LastTerminationState.Terminated} {
		if t != nil && names(t.ContainerID, id) {
			return t
		}
	}
	return nil
}

// lost is the end of a container that ran and of which nothing is left.
func lost(message string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{Reason: string(StatusUnknown), Message: message, ExitCode: LostExitCode}
}

// forgotten is the end of an init container of which nothing is left, in a pod
// that is past it.
func forgotten() *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{Reason: string(Completed), Message: initForgotten}
}

// addLastState adds how the instance before the current one ended: as the runtime
// has it, or else as it was reported.
func (k *subject) addLastState(s *v1.ContainerStatus) {
	switch {
	case k.ended != nil:
		s.LastTerminationState.Terminated = k.termination(k.ended, k.idText(k.ended.ID))
	case k.before == nil:
	case k.endedBefore() && !k.reported(k.current.ID) && !names(k.before.State.Terminated.ContainerID, k.current.ID) && !k.guessedAtThis():
		k.before.State.DeepCopyInto(&s.LastTerminationState)
	case k.waitedAfterThis():
		// It is the state of the current instance.
	default:
		k.before.LastTerminationState.DeepCopyInto(&s.LastTerminationState)
	}
}

// guessedAtThis reports whether the end that was reported is a guess at the one that the
// current instance had: the runtime did not know the instance then, and does now.
func (k *subject) guessedAtThis() bool {
	end := k.before.State.Terminated
	return end.Reason == string(StatusUnknown) && end.ContainerID == "" &&
		k.current.State == runtime.ContainerExited && k.instancesBefore() <= k.before.RestartCount
}

// waitedAfterThis reports whether the last state that was reported is how the current
// instance ended, after which the container waited: by its ID, or as a guess at the end of
// one in an unknown state, for which another run was counted.
func (k *subject) waitedAfterThis() bool {
	end := k.before.LastTerminationState.Terminated
	switch {
	case end == nil:
		return false
	case end.Reason == string(StatusUnknown):
		return k.current.State == runtime.ContainerExited && k.reported(k.current.ID) &&
			k.before.State.Waiting != nil && k.before.RestartCount > k.instancesBefore()
	}
	return names(end.ContainerID, k.current.ID)
}

// maxMessages bounds the termination messages of all containers of a pod in a status, in bytes. The
// messages of the containers' last states have as much again, as in a kubelet.
const maxMessages = 12 << 10

// boundMessages cuts the termination messages of a container to its share. It cuts reported
// messages as well as new ones: an ephemeral container that is added later makes the shares smaller.
func (k *subject) boundMessages(s *v1.ContainerStatus) {
	for _, end := range [...]*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if end != nil {
			end.Message = k.shareOf(end.Message)
		}
	}
}

// shareOf returns the beginning of a message: all containers of the pod have equal shares. It omits
// a character that the cut would split.
func (k *subject) shareOf(message string) string {
	spec := &k.Pod.Spec
	share := maxMessages / (len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers))
	if len(message) <= share {
		return message
	}
	return strings.ToValidUTF8(message[:share], "")
}

// apiTime is t as the API has it, the zero time if it is not known.
func apiTime(t time.Time) metav1.Time { return metav1.NewTime(t) }
