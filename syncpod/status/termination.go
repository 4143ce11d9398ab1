package status

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
)

// LostExitCode is the exit code for a container whose exit was not observed: SIGKILL's
// code.
const LostExitCode = 137

// Lost returns the status for an instance that has started and that the runtime no longer has: exited with [LostExitCode] and
// the reason [StatusUnknown]. GeneratePodStatus reports it without the instance's ID, because its exit was not observed.
func Lost(c runtime.ContainerStatus) runtime.ContainerStatus {
	c.State, c.ExitCode, c.Reason, c.Message = runtime.ContainerExited, LostExitCode, string(StatusUnknown), lostWhileRunning
	return c
}

// The messages for unobserved exits. Monitoring matches these texts.
const (
	lostWhileTerminating = "The container could not be located when the pod was terminated"
	lostWhileRunning     = "The container could not be located when the pod was deleted.  The container used to be Running"
	initForgotten        = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
)

// termination returns an instance's exit: the exit that was reported first, otherwise the runtime's. A runtime that lost
// its records may report another exit later (kubernetes #104107, #122160). id is the instance's ID as text.
func (k *subject) termination(c *runtime.ContainerStatus, id string) *v1.ContainerStateTerminated {
	if seen := k.seen(c.ID); seen != nil {
		end := seen.DeepCopy()
		end.Reason = ReasonOf(end.Reason, end.ExitCode, c)
		return end
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

// ReasonOf returns the reason for an exit that was first observed with a reason and an exit code, and is now c. It is the
// first one, unless the runtime has learned since that the exit was an OOM kill (containerd #12372).
func ReasonOf(first string, code int32, c *runtime.ContainerStatus) string {
	if c != nil && c.ExitCode == code && c.Reason == string(OOMKilled) {
		return c.Reason
	}
	return first
}

// seen returns that instance's reported exit, nil if there is none. Made-up exits have no ID, so
// they are never found.
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

// lost returns the exit from a container that ran and has no record.
func lost(message string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{Reason: string(StatusUnknown), Message: message, ExitCode: LostExitCode}
}

// forgotten returns the exit from an init container without any record, in a pod that has
// completed initialization.
func forgotten() *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{Reason: string(Completed), Message: initForgotten}
}

// addLastState adds the previous instance's exit: the runtime's, or else the reported one.
func (k *subject) addLastState(s *v1.ContainerStatus) {
	switch {
	case k.ended != nil:
		s.LastTerminationState.Terminated = k.termination(k.ended, k.idText(k.ended.ID))
	case k.before == nil:
	case k.endedBefore() && !k.reported(k.current.ID) && !names(k.before.State.Terminated.ContainerID, k.current.ID) && !k.guessedAtThis():
		k.before.State.DeepCopyInto(&s.LastTerminationState)
	case k.waitedAfterThis():
		// The reported exit is the current instance's state.
	default:
		k.before.LastTerminationState.DeepCopyInto(&s.LastTerminationState)
	}
}

// guessedAtThis reports whether the reported exit is a guess about the current instance: the runtime did not have the
// instance at that time, and has it now.
func (k *subject) guessedAtThis() bool {
	end := k.before.State.Terminated
	return end.Reason == string(StatusUnknown) && end.ContainerID == "" &&
		k.current.State == runtime.ContainerExited && k.instancesBefore() <= k.before.RestartCount
}

// waitedAfterThis reports whether the reported last state is the current instance's exit, after
// which the container waited: by its ID, or as a guess for an instance in an unknown state, which
// was counted as a restart.
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

// maxMessages limits the termination messages from all containers in a pod in a status, in bytes. The messages in
// the containers' last states have the same limit, as in a kubelet.
const maxMessages = 12 << 10

// boundMessages truncates the termination messages from a container to its share. It also
// truncates reported messages: an ephemeral container that is added later makes the shares
// smaller.
func (k *subject) boundMessages(s *v1.ContainerStatus) {
	for _, end := range [...]*v1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if end != nil {
			end.Message = k.shareOf(end.Message)
		}
	}
}

// shareOf returns a message's beginning: all containers in the pod have equal shares. It omits a
// character that the cut would split.
func (k *subject) shareOf(message string) string {
	share := maxMessages / k.containers()
	if len(message) <= share {
		return message
	}
	return strings.ToValidUTF8(message[:share], "")
}

// maxWaiting limits why the containers in a pod wait, together, in bytes: an API server refuses an object with
// 1.5 MiB.
const maxWaiting = 64 << 10

// boundWaiting truncates why a container waits to its share.
func (k *subject) boundWaiting(message string) string {
	return foreign.CutText(message, min(foreign.Max, maxWaiting/k.containers()))
}

// containers counts all the pod's containers.
func (k *subject) containers() int {
	spec := &k.Pod.Spec
	return len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers)
}

// apiTime converts t to the API's type. An unknown time becomes the zero time.
func apiTime(t time.Time) metav1.Time { return metav1.NewTime(t) }
