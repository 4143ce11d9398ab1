package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// RestartAllRequested reports whether a container has ended with an exit code
// for which its restart rules ask that all containers of the pod restart
// (KEP-5532), and which one it is. A pod that is being deleted restarts nothing.
func RestartAllRequested(pod *v1.Pod, status *runtime.PodStatus) (by ContainerRef, requested bool) {
	if pod == nil || pod.DeletionTimestamp != nil {
		return ContainerRef{}, false
	}
	for at := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
		ref := refAt(pod, at)
		last := status.Latest(ref.Name)
		if last == nil || last.State != runtime.ContainerExited {
			continue
		}
		rule := matchingRule(ref.Spec(pod), last.ExitCode)
		if rule != nil && rule.Action == v1.ContainerRestartRuleActionRestartAllContainers {
			return ref, true
		}
	}
	return ContainerRef{}, false
}

// resetAll removes every container that is not ephemeral, the regular ones
// first, so that the next look finds the pod as if it had never run in its
// sandbox. Nothing is started before all of them are gone.
func (d *decision) resetAll() {
	if d.plan.Sandbox.Reason != ReasonNone {
		// Create says that the pod goes on: without it, to kill the pod would end it.
		d.killPod(d.plan.Sandbox.Reason)
		d.plan.Sandbox.Create = true
	}
	by, _ := RestartAllRequested(d.Pod, d.Status)
	for i := range d.Pod.Spec.Containers {
		d.reset(regularRef(d.Pod, i), by)
	}
	for i := range d.Pod.Spec.InitContainers {
		d.reset(initRef(d.Pod, i), by)
	}
	slices.SortStableFunc(d.plan.Reset, func(a, b ResetStep) int { return after(a.Last, b.Last) })
}

func (d *decision) reset(ref, by ContainerRef) {
	if d.Status == nil {
		return
	}
	for i := range d.Status.Containers {
		if c := &d.Status.Containers[i]; c.Name == ref.Name {
			d.plan.Reset = append(d.plan.Reset, ResetStep{ref, c.ID, RestartAllContainers, c.Live(), ref == by})
		}
	}
}

// after orders two steps: one that is late stands after one that is not.
func after(late, other bool) int {
	switch {
	case late == other:
		return 0
	case late:
		return 1
	}
	return -1
}
