package syncpod

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// startOver has a pod begin anew that may not restart and has lost its sandbox, if it has
// not had its run: none of its regular containers has ever run, though init containers
// and sidecars did in that sandbox (kubernetes #118321). What still runs is stopped
// first. A kubelet leaves such a pod Pending for ever.
func startOver(in actions.Input, ended actions.Plan) actions.Plan {
	never := in.Pod.Spec.RestartPolicy == v1.RestartPolicyNever && in.Pod.DeletionTimestamp == nil
	lost := ended.Ends() && ended.Sandbox.Reason != actions.ReasonNone
	if !never || !lost || hasBegun(in.Pod, in.Status) || initFailed(in.Pod, in.Status) {
		return ended
	}
	in.Status = withoutContainers(in.Status)
	plan := actions.Compute(in)
	plan.KillPod, plan.KillReason = ended.KillPod, ended.KillReason
	return plan
}

// hasBegun reports whether a regular container is known to have run.
func hasBegun(pod *v1.Pod, status *runtime.PodStatus) bool {
	for i := range pod.Spec.Containers {
		if c := status.Latest(pod.Spec.Containers[i].Name); c != nil && c.State != runtime.ContainerCreated {
			return true
		}
	}
	return false
}

// initFailed reports whether an init container has failed, and the pod with it.
func initFailed(pod *v1.Pod, status *runtime.PodStatus) bool {
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		c := status.Latest(spec.Name)
		if c != nil && c.State == runtime.ContainerExited && c.ExitCode != 0 && !actions.IsSidecar(spec) {
			return true
		}
	}
	return false
}

// withoutContainers is what there is of a pod that starts over: its sandboxes, whose
// attempts go on.
func withoutContainers(status *runtime.PodStatus) *runtime.PodStatus {
	bare := *status
	bare.Containers = nil
	return &bare
}
