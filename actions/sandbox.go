package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// judgeSandbox decides whether the pod can go on in its latest sandbox. Its
// answer never has Create set: whether a new sandbox is worth making depends on
// the containers.
func judgeSandbox(pod *v1.Pod, status *runtime.PodStatus) SandboxStep {
	latest := status.LatestSandbox()
	if latest == nil {
		return SandboxStep{Reason: SandboxMissing}
	}
	step := SandboxStep{ID: latest.ID, Attempt: latest.Attempt, Reason: sandboxFault(pod, status, latest)}
	if step.Reason != ReasonNone {
		step.Attempt++
	}
	return step
}

func sandboxFault(pod *v1.Pod, status *runtime.PodStatus, latest *runtime.SandboxStatus) Reason {
	switch {
	case readySandboxes(status) > 1:
		return SandboxDoubled
	case latest.State != runtime.SandboxReady:
		return SandboxNotReady
	case latest.NetworkMode != networkMode(pod):
		return SandboxNetworkChanged
	case !pod.Spec.HostNetwork && latest.Network != nil && len(latest.Network.IPs) == 0:
		return SandboxNoAddress
	}
	return ReasonNone
}

func readySandboxes(status *runtime.PodStatus) int {
	n := 0
	for i := range status.Sandboxes {
		if status.Sandboxes[i].State == runtime.SandboxReady {
			n++
		}
	}
	return n
}

func networkMode(pod *v1.Pod) runtime.NamespaceMode {
	if pod.Spec.HostNetwork {
		return runtime.NamespaceNode
	}
	return runtime.NamespacePod
}
