package runtime

import v1 "k8s.io/api/core/v1"

// IsTerminal reports whether the phase is final: no container in the pod runs, and none will be
// started again.
func IsTerminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// IsSidecar reports whether an init container keeps running alongside the regular containers
// (KEP-753). The caller must pass init containers only: a regular container with the same restart
// policy is not a sidecar.
func IsSidecar(c *v1.Container) bool {
	return c != nil && c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// systemCritical is system-cluster-critical's priority; only system-node-critical is higher.
const systemCritical = 2_000_000_000

// IsCritical reports whether the node depends on the pod: a static pod, its mirror pod, or a pod with
// system-cluster-critical's priority or a higher one. Critical pods are not evicted, preempt other pods, and do not
// swap.
func IsCritical(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirror || IsStatic(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical
}
