package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// Phase returns a pod's phase from its init and regular containers' statuses, as a kubelet's getPhase does. A container in
// the spec without a status waits for its first start; statuses of other containers are ignored. terminal means that no
// container will run again, whatever its restart policy: the pod is being stopped or has been stopped.
//
// Phase does not know what was reported before, and so may leave a terminal phase: [Merge] does not.
func Phase(pod *v1.Pod, s v1.PodStatus, terminal bool) v1.PodPhase {
	if pod == nil {
		return ""
	}
	v, s := viewOf(pod, s)
	v.Terminal = terminal
	return v.tally(&s).phase()
}

// viewOf returns a view that has only container statuses, and these statuses in the spec's order.
func viewOf(pod *v1.Pod, s v1.PodStatus) (view, v1.PodStatus) {
	s.InitContainerStatuses = aligned(pod.Spec.InitContainers, s.InitContainerStatuses)
	s.ContainerStatuses = aligned(pod.Spec.Containers, s.ContainerStatuses)
	v := view{Input: Input{Pod: pod}, before: &s}
	for i := range s.ContainerStatuses {
		v.begun = v.begun || s.ContainerStatuses[i].State.Running != nil || lastEnd(&s.ContainerStatuses[i]) != nil
	}
	return v, s
}

// aligned returns each container's status in a spec.
func aligned(spec []v1.Container, list []v1.ContainerStatus) []v1.ContainerStatus {
	all := make([]v1.ContainerStatus, len(spec))
	for i := range spec {
		all[i].Name = spec[i].Name
		if s := statusOf(list, spec[i].Name); s != nil {
			all[i] = *s
		}
		if all[i].Started == nil {
			all[i].Started = new(false)
		}
	}
	return all
}

// addPhase adds the phase, and the reason and message that belong to it.
func (v *view) addPhase(s *v1.PodStatus) {
	t := v.tally(s)
	s.Phase = t.phase()
	if v.Ended && !v.comesBack() && t.running == 0 && !runtime.IsTerminal(s.Phase) {
		s.Phase = v1.PodFailed
	}
	switch {
	case v.Evicted != nil:
		s.Phase, s.Reason, s.Message = v1.PodFailed, string(v.Evicted.Reason), v.Evicted.Message
	case v.Blocked != nil && !runtime.IsTerminal(s.Phase):
		s.Phase, s.Reason, s.Message = v1.PodPending, string(v.Blocked.Reason), v.Blocked.Message
	}
	v.keepEnd(s)
}

// keepEnd keeps a terminal phase (kubernetes #105382), so that the conditions match it. Its reason
// stays unless the containers show another terminal phase.
func (v *view) keepEnd(s *v1.PodStatus) {
	switch ended := v.ended(); {
	case ended != nil && runtime.IsTerminal(s.Phase) && s.Phase != ended.Phase:
		s.Phase, s.Reason, s.Message = ended.Phase, "", ""
	case ended != nil:
		s.Phase, s.Reason, s.Message = ended.Phase, ended.Reason, ended.Message
	}
}

// ended returns the status with a terminal phase, nil if there is none. The API server's status
// takes precedence over the last reported one.
func (v *view) ended() *v1.PodStatus {
	for _, s := range [...]*v1.PodStatus{&v.Pod.Status, v.before} {
		if runtime.IsTerminal(s.Phase) {
			return s
		}
	}
	return nil
}

// tally counts a pod's container states.
type tally struct {
	// initFailed: an init container failed, and the spec does not allow another run.
	initFailed bool
	// initPending counts init containers that have not ended, or sidecars that have not started.
	initPending int
	// waiting counts containers that have never run, running those that run, ended those that have
	// exited, and succeeded those that exited without an error.
	waiting, running, ended, succeeded int
	// again means that an exited container will run again.
	again bool
}

func (v *view) tally(s *v1.PodStatus) tally {
	t := tally{again: v.StartsOver && !v.gone()}
	for i := range s.InitContainerStatuses {
		if spec := &v.Pod.Spec.InitContainers[i]; runtime.IsSidecar(spec) {
			v.countSidecar(&t, &s.InitContainerStatuses[i])
		} else {
			v.countInit(&t, spec, &s.InitContainerStatuses[i])
		}
	}
	for i := range s.ContainerStatuses {
		v.countRegular(&t, &v.Pod.Spec.Containers[i], &s.ContainerStatuses[i])
	}
	return t
}

func (v *view) countInit(t *tally, spec *v1.Container, s *v1.ContainerStatus) {
	end := lastEnd(s)
	switch {
	case end == nil:
		t.initPending++
	case end.ExitCode != 0:
		again := v.runsAgain(spec, end.ExitCode)
		t.initFailed = t.initFailed || !again && !t.again
	}
}

// countSidecar counts a sidecar. A sidecar that has started before does not block the pod when it
// restarts.
func (v *view) countSidecar(t *tally, s *v1.ContainerStatus) {
	switch {
	case s.State.Running != nil:
		t.running++
		if !v.begun && !hadStarted(v.before.InitContainerStatuses, s.Name) {
			t.initPending++
		}
	case lastEnd(s) == nil:
		t.waiting++
	}
}

func hadStarted(before []v1.ContainerStatus, name string) bool {
	s := statusOf(before, name)
	return s != nil && s.Started != nil && *s.Started
}

func (v *view) countRegular(t *tally, spec *v1.Container, s *v1.ContainerStatus) {
	end := lastEnd(s)
	switch {
	case s.State.Running != nil:
		t.running++
	case end == nil, v.isYetToRun(end):
		t.waiting++
	default:
		t.ended++
		again := v.runsAgain(spec, end.ExitCode)
		t.again = t.again || again && !v.gone() || s.State.Waiting != nil && v.isCreated(spec.Name)
		if s.State.Terminated != nil && end.ExitCode == 0 {
			t.succeeded++
		}
	}
}

// runsAgain reports whether a container that has exited will run again: its spec asks for it, or it was stopped for that
// (kubernetes #109537).
func (v *view) runsAgain(spec *v1.Container, exitCode int32) bool {
	if c := currentOf(v.Status, spec.Name); c != nil && slices.Contains(v.Restarting, c.ID) {
		return true
	}
	again, _ := actions.RestartsAfter(v.Pod, spec, exitCode)
	return again
}

// isCreated reports whether the container has an instance that may still be started. While it
// exists, an earlier instance's exit does not end the pod (kubernetes #107845). In a pod that has
// ended, no instance may be started.
func (v *view) isCreated(name string) bool {
	if v.ended() != nil {
		return false
	}
	c := currentOf(v.Status, name)
	return c != nil && c.State == runtime.ContainerCreated
}

// gone reports whether no container in the pod will run again.
func (v *view) gone() bool { return (v.Terminal || v.Ended) && !v.comesBack() }

// comesBack reports whether the pod runs again after it was stopped: a restarted agent runs a
// static pod that was not deleted, unless the pod may run only once and has run.
func (v *view) comesBack() bool {
	return runtime.IsStatic(v.Pod) && v.Pod.DeletionTimestamp == nil && !actions.HasRunOnce(v.Pod, v.Status)
}

// isYetToRun reports whether an exit was reported for a container that has never run, because its pod
// was stopped although it will run again.
func (v *view) isYetToRun(end *v1.ContainerStateTerminated) bool {
	return v.Ended && v.comesBack() && end.Reason == string(StatusUnknown) && v.before.Phase != v1.PodRunning
}

// lastEnd returns the last exit from a container that does not run, nil if it never
// ran.
func lastEnd(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s.State.Running != nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// phase returns the phase that follows from the counts. Sidecars do not keep a pod from ending (KEP-753).
func (t tally) phase() v1.PodPhase {
	switch {
	case t.initFailed:
		return v1.PodFailed
	case t.initPending > 0 || t.waiting > 0:
		return v1.PodPending
	case t.running > 0 || t.again:
		return v1.PodRunning
	case t.ended == 0:
		return v1.PodPending
	case t.succeeded == t.ended:
		return v1.PodSucceeded
	}
	return v1.PodFailed
}
