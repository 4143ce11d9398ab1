package syncpod

import (
	"slices"

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
	lost := ended.TerminatesPod() && ended.Sandbox.Reason != actions.ReasonNone
	if !never || !lost || hasBegun(in.Pod, in.Status) || initFailed(in.Pod, in.Status) {
		return ended
	}
	in.Status = withoutContainers(in.Status)
	plan := actions.Compute(in)
	plan.KillPod, plan.KillReason = ended.KillPod, ended.KillReason
	return plan
}

// stayOver has a pod that may not restart end, and not begin anew, if it has had its run
// though the runtime has no sandbox of it any more: somebody else tells of its containers
// (kubernetes #51142). It is judged as one that has a sandbox which is not ready.
func stayOver(in actions.Input, plan actions.Plan) actions.Plan {
	never := in.Pod.Spec.RestartPolicy == v1.RestartPolicyNever
	missing := plan.Sandbox.Create && plan.Sandbox.Reason == actions.SandboxMissing
	if !never || !missing || !hasBegun(in.Pod, in.Status) && !initFailed(in.Pod, in.Status) {
		return plan
	}
	lost := *in.Status
	lost.Sandboxes = []runtime.SandboxStatus{{State: runtime.SandboxNotReady}}
	in.Status = &lost
	plan = actions.Compute(in)
	plan.Sandbox.Reason, plan.KillReason = actions.SandboxMissing, actions.SandboxMissing
	return plan
}

// hasBegun reports whether a regular container is known to have run: whatever the restart
// policy, and whichever sandbox it ran in. To actions.Compute any container that has run,
// an init container or a sidecar, too, has had the pod's run.
func hasBegun(pod *v1.Pod, status *runtime.PodStatus) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(spec v1.Container) bool {
		c := status.Latest(spec.Name)
		return c != nil && c.State != runtime.ContainerCreated
	})
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
