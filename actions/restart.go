package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// restartPolicy returns a container's effective policy: its own (KEP-753, KEP-5307), else the
// pod's, else the API's default, Always.
func restartPolicy(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	switch {
	case c.RestartPolicy != nil:
		return v1.RestartPolicy(*c.RestartPolicy)
	case pod.Spec.RestartPolicy != "":
		return pod.Spec.RestartPolicy
	}
	return v1.RestartPolicyAlways
}

// afterExit decides whether a container runs again after it exited, and why. In a pod that is being
// deleted it does not; otherwise RestartsAfter decides.
func afterExit(pod *v1.Pod, c *v1.Container, exitCode int32) (again bool, why Reason) {
	if pod.DeletionTimestamp != nil {
		return false, PodDeleted
	}
	return RestartsAfter(pod, c, exitCode)
}

// RestartsAfter reports whether the spec restarts a container after the given exit code, and why,
// also if the pod is being deleted. A restart rule that matches the exit code does (KEP-5307);
// without one the restart policy decides. Both arguments are required.
func RestartsAfter(pod *v1.Pod, c *v1.Container, exitCode int32) (again bool, why Reason) {
	if matchingRule(c, exitCode) != nil {
		return true, ContainerExitRule
	}
	switch policy := restartPolicy(pod, c); {
	case policy == v1.RestartPolicyAlways, policy == v1.RestartPolicyOnFailure && exitCode != 0:
		return true, ContainerExited
	case exitCode == 0:
		return false, DoneSucceeded
	}
	return false, DoneFailed
}

// matchingRule returns the first restart rule of c that matches the exit code.
func matchingRule(c *v1.Container, exitCode int32) *v1.ContainerRestartRule {
	for i := range c.RestartPolicyRules {
		if rule := &c.RestartPolicyRules[i]; rule.ExitCodes != nil && matches(rule.ExitCodes, exitCode) {
			return rule
		}
	}
	return nil
}

func matches(want *v1.ContainerRestartRuleOnExitCodes, exitCode int32) bool {
	listed := slices.Contains(want.Values, exitCode)
	switch want.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return listed
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !listed
	}
	return false
}
