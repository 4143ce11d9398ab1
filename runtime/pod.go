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
