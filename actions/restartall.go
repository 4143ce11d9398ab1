package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// RestartAllRequested reports whether a container has exited with an exit code whose restart rule
// restarts all containers in the pod (KEP-5532), and which container it is. It returns false for a
// pod that is being deleted.
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

// resetAll removes every container except ephemeral ones, the regular ones first, so that the next
// plan treats the pod as if it had never run in its sandbox. Nothing is started before all are
// removed.
func (d *decision) resetAll() {
	if d.plan.Sandbox.Reason != ReasonNone {
		// Create keeps the pod running: KillPod without Create would end it.
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
	moveLast(d.plan.Reset, func(s *ResetStep) bool { return s.Last })
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

// moveLast moves the late steps behind the others. Both keep their order.
func moveLast[S any](steps []S, late func(*S) bool) {
	var last []S
	n := 0
	for _, s := range steps {
		if late(&s) {
			last = append(last, s)
		} else {
			steps[n] = s
			n++
		}
	}
	copy(steps[n:], last)
}
