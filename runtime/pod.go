package runtime

import v1 "k8s.io/api/core/v1"

// IsTerminal reports whether a pod in the phase has ended for good: no container of it runs
// or is started again.
func IsTerminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// IsSidecar reports whether an init container keeps running alongside the regular containers
// (KEP-753). The caller must pass init containers only: a regular container with the same restart
// policy is not a sidecar.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// systemCritical is the priority of system-cluster-critical; only system-node-critical is higher.
const systemCritical = 2_000_000_000

// IsCritical reports whether the node cannot do without a pod: it is a static pod or its mirror, or has the priority of
// system-cluster-critical or a higher one. Such a pod is not evicted, preempts others, and does not swap.
func IsCritical(pod *v1.Pod) bool {
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirror || IsStatic(pod) || pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical
}
