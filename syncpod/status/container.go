package status

import (
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// addContainers adds a status for each container in the pod, in the spec's
// order.
func (v *view) addContainers(s *v1.PodStatus) {
	if v.wasRejected() {
		return
	}
	spec := &v.Pod.Spec
	n := len(spec.InitContainers) + len(spec.Containers) + len(spec.EphemeralContainers)
	all := make([]v1.ContainerStatus, n)
	v.room = make([]v1.ResourceRequirements, n)
	s.InitContainerStatuses = take(&all, len(spec.InitContainers))
	for i := range s.InitContainerStatuses {
		k := v.subject(&spec.InitContainers[i], actions.InitContainer, v.before.InitContainerStatuses)
		k.report(&s.InitContainerStatuses[i])
	}
	s.ContainerStatuses = take(&all, len(spec.Containers))
	for i := range s.ContainerStatuses {
		k := v.subject(&spec.Containers[i], actions.RegularContainer, v.before.ContainerStatuses)
		k.report(&s.ContainerStatuses[i])
	}
	s.EphemeralContainerStatuses = take(&all, len(spec.EphemeralContainers))
	for i := range s.EphemeralContainerStatuses {
		c := (*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
		k := v.subject(c, actions.EphemeralContainer, v.before.EphemeralContainerStatuses)
		k.report(&s.EphemeralContainerStatuses[i])
	}
}

// take cuts the first n off all, and returns nil for n = 0. An append to the result does not
// overwrite the rest.
func take(all *[]v1.ContainerStatus, n int) []v1.ContainerStatus {
	if n == 0 {
		return nil
	}
	first := (*all)[:n:n]
	*all = (*all)[n:]
	return first
}

// subject is one container in the pod, with everything known about it.
type subject struct {
	*view
	spec *v1.Container
	kind actions.ContainerKind
	// before is the container's last reported status, nil if there is none.
	before *v1.ContainerStatus
	// current is the container's current instance. ended is the latest other instance that have
	// exited. Each is nil if there is none.
	current, ended *runtime.ContainerStatus
}

func (v *view) subject(spec *v1.Container, kind actions.ContainerKind, before []v1.ContainerStatus) subject {
	k := subject{view: v, spec: spec, kind: kind, before: statusOf(before, spec.Name)}
	k.current = currentOf(v.Status, spec.Name)
	switch {
	case k.current == nil:
	case k.wasFollowed():
		k.current = nil
	default:
		k.ended = endedBeside(k.current, v.Status)
	}
	return k
}

// wasFollowed reports whether, according to the last status, a later instance has exited after the current one, and the
// runtime has lost that instance's record.
func (k *subject) wasFollowed() bool {
	return k.endedBefore() && k.current.State == runtime.ContainerExited &&
		k.before.LastTerminationState.Terminated != nil && names(k.before.LastTerminationState.Terminated.ContainerID, k.current.ID)
}

func statusOf(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// currentOf returns a container's current instance: the latest running one, otherwise the
// latest one.
func currentOf(status *runtime.PodStatus, name string) (current *runtime.ContainerStatus) {
	if status == nil {
		return nil
	}
	for i := range status.Containers {
		if c := &status.Containers[i]; c.Name == name && (current == nil || countsMore(c, current)) {
			current = c
		}
	}
	return current
}

func countsMore(c, than *runtime.ContainerStatus) bool {
	if runs := c.State == runtime.ContainerRunning; runs != (than.State == runtime.ContainerRunning) {
		return runs
	}
	return c.NewerThan(than)
}

// endedBeside returns a container's latest instance that has exited, except the current one.
func endedBeside(current *runtime.ContainerStatus, status *runtime.PodStatus) (ended *runtime.ContainerStatus) {
	for i := range status.Containers {
		c := &status.Containers[i]
		if c != current && c.State == runtime.ContainerExited && c.Name == current.Name && (ended == nil || c.Attempt > ended.Attempt) {
			ended = c
		}
	}
	return ended
}

// report fills in the container's status.
func (k *subject) report(s *v1.ContainerStatus) {
	if k.current != nil {
		k.reportInstance(s)
	} else {
		k.reportAbsent(s)
	}
	if k.Ended {
		k.end(s)
	} else {
		k.addStartError(s)
	}
	k.addProbes(s)
	k.addDevices(s)
	k.boundMessages(s)
}

// reportInstance reports the current instance's status.
func (k *subject) reportInstance(s *v1.ContainerStatus) {
	c := k.current
	s.Name, s.Image, s.ImageID, s.ContainerID = c.Name, c.Image, c.ImageRef, k.idText(c.ID)
	if s.ImageID == "" {
		s.ImageID = c.ImageID
	}
	s.RestartCount = k.restarts()
	if k.before != nil {
		s.VolumeMounts = copyMounts(k.before.VolumeMounts)
	}
	k.addState(s)
	k.addLastState(s)
	k.addIdentity(s)
	k.addResources(s, k.nextRoom())
}

// restarts counts the runs before the current one. It never decreases: a runtime that lost its records counts
// from 0 again (kubernetes #99748).
func (k *subject) restarts() int32 {
	count := k.instancesBefore()
	switch {
	case k.before == nil:
		return count
	case k.current.State == runtime.ContainerRunning && k.endedSince():
		return max(count, k.before.RestartCount+1)
	}
	return max(count, k.before.RestartCount)
}

// instancesBefore counts the instances before the current one, by its attempt.
func (k *subject) instancesBefore() int32 { return int32(min(k.current.Attempt, math.MaxInt32)) }

// endedSince reports whether the last status has the exit from an earlier instance whose run is not counted
// yet.
func (k *subject) endedSince() bool {
	end := k.before.State.Terminated
	return end != nil && end.Reason != string(StatusUnknown) && !k.reported(k.current.ID)
}

// addState adds the current instance's state.
func (k *subject) addState(s *v1.ContainerStatus) {
	switch c := k.current; c.State {
	case runtime.ContainerRunning:
		s.State.Running = &v1.ContainerStateRunning{StartedAt: apiTime(c.StartedAt)}
	case runtime.ContainerExited:
		s.State.Terminated = k.termination(c, s.ContainerID)
	case runtime.ContainerCreated:
		s.State.Waiting = &v1.ContainerStateWaiting{}
	default:
		k.addUnknown(s)
	}
}

// addUnknown adds the state for an instance whose state is unknown to the runtime. A reported exit stays. An instance
// that was reported as running counts as exited, and its next run counts as a restart.
func (k *subject) addUnknown(s *v1.ContainerStatus) {
	switch {
	case k.reported(k.current.ID) && k.before.State.Terminated != nil:
		s.State.Terminated = k.before.State.Terminated.DeepCopy()
	case k.before != nil && k.before.State.Running != nil:
		s.State.Terminated = lost(lostWhileTerminating)
		s.RestartCount = k.before.RestartCount + 1
	default:
		s.State.Waiting = &v1.ContainerStateWaiting{}
	}
}

// reportAbsent reports a container without an instance in the runtime. A reported exit stays.
func (k *subject) reportAbsent(s *v1.ContainerStatus) {
	if k.endedBefore() {
		k.before.DeepCopyInto(s)
		return
	}
	s.Name, s.Image, s.VolumeMounts = k.spec.Name, k.spec.Image, k.mounts()
	if k.isForgotten() {
		s.State.Terminated = forgotten()
	} else {
		s.State.Waiting = &v1.ContainerStateWaiting{Reason: string(k.waitingFor())}
	}
	if k.before != nil {
		k.addLost(s)
	}
}

func (k *subject) endedBefore() bool { return k.before != nil && k.before.State.Terminated != nil }

// isForgotten reports whether this is an init container without any record, in a pod that has
// completed initialization.
func (k *subject) isForgotten() bool {
	return k.kind == actions.InitContainer && k.initialized && !runtime.IsSidecar(k.spec) && k.current == nil && !k.endedBefore()
}

// addLost adds earlier instances' reported status. An instance that was reported as running has
// exited since; if the pod keeps running, that counts as a restart.
func (k *subject) addLost(s *v1.ContainerStatus) {
	s.RestartCount = k.before.RestartCount
	k.before.LastTerminationState.DeepCopyInto(&s.LastTerminationState)
	if k.before.State.Running == nil || s.LastTerminationState.Terminated != nil {
		return
	}
	s.LastTerminationState.Terminated = lost(lostWhileRunning)
	if k.Pod.DeletionTimestamp == nil {
		s.RestartCount++
	}
}

// waitingFor returns why a container waits before the first try to start it.
func (k *subject) waitingFor() Reason {
	if len(k.Pod.Spec.InitContainers) > 0 {
		return PodInitializing
	}
	return ContainerCreating
}

// addStartError reports a container that should start and could not as waiting. Its last exit
// becomes its last state.
func (k *subject) addStartError(s *v1.ContainerStatus) {
	problem, failed := k.StartErrors[k.spec.Name]
	if !failed || !k.toStart() {
		return
	}
	if s.State.Terminated != nil {
		s.LastTerminationState = s.State
	}
	s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: string(problem.Reason), Message: k.boundWaiting(problem.Message)}}
}

// toStart reports whether the container should start, now or later.
func (k *subject) toStart() bool {
	switch {
	case k.Pod.DeletionTimestamp != nil:
		return false
	case k.current == nil:
		return !k.isForgotten()
	case k.current.State != runtime.ContainerExited:
		return k.current.State != runtime.ContainerRunning
	case k.current.ExitCode == 0 && k.kind == actions.InitContainer:
		return false // a sidecar is started again, but is reported as exited until then
	}
	return k.runsAgain(k.spec, k.current.ExitCode)
}

// end reports a waiting container in a pod that has ended as terminated: with its last exit, or as
// lost if it may have run and its exit is unknown. Containers that were not due to start keep
// waiting: those behind init containers that have not completed, and ephemeral ones that were never
// created.
func (k *subject) end(s *v1.ContainerStatus) {
	last := s.LastTerminationState.Terminated
	due := k.kind == actions.RegularContainer && k.hadTurn() || k.kind == actions.InitContainer && k.initialized
	switch {
	case s.State.Waiting == nil:
	case last != nil:
		s.State, s.LastTerminationState = v1.ContainerState{Terminated: last}, v1.ContainerState{}
	case due:
		s.State = v1.ContainerState{Terminated: lost(lostWhileTerminating)}
	}
}

// hadTurn reports whether regular containers were due to start: the initialization is complete, or was reported as
// complete.
func (v *view) hadTurn() bool {
	told := find(v.before.Conditions, v1.PodInitialized)
	return len(v.Pod.Spec.InitContainers) == 0 || v.begun || told != nil && told.Status == v1.ConditionTrue
}

// reported reports whether the last status describes this instance.
func (k *subject) reported(id runtime.ContainerID) bool {
	return k.before != nil && names(k.before.ContainerID, id)
}

// idText returns the ID as text. It returns the reported text if that contains the ID.
func (k *subject) idText(id runtime.ContainerID) string {
	if k.reported(id) {
		return k.before.ContainerID
	}
	if seen := k.seen(id); seen != nil {
		return seen.ContainerID
	}
	return id.String()
}

// names reports whether text is id in the form type://id. It does not allocate.
func names(text string, id runtime.ContainerID) bool {
	rest, ok := strings.CutPrefix(text, id.Type)
	return ok && !id.IsZero() && strings.HasPrefix(rest, "://") && rest[len("://"):] == id.ID
}
