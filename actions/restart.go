package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
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

// afterExit decides the same for an instance. If it was stopped in order to start its container again, its exit code does
// not count.
func (d *decision) afterExit(ref ContainerRef, c *runtime.ContainerStatus) (again bool, why Reason) {
	if d.Pod.DeletionTimestamp == nil && d.isRestarting(c) {
		return true, ContainerRestarting
	}
	return afterExit(d.Pod, ref.Spec(d.Pod), c.ExitCode)
}

// isRestarting reports whether an instance was stopped in order to start its container again.
func (d *decision) isRestarting(c *runtime.ContainerStatus) bool {
	return slices.Contains(d.Restarting, c.ID)
}

// Restarts returns the running instances that the plan stops although their containers must run: they start again after
// the stop, perhaps by a later plan. The caller passes them in Input.Restarting until then. pod and status are from the
// plan's Input.
func (p Plan) Restarts(pod *v1.Pod, status *runtime.PodStatus) (ids []runtime.ContainerID) {
	for _, k := range p.Kill {
		if k.Restart {
			ids = append(ids, k.ID)
		}
	}
	if pod == nil || !p.KillPod || p.TerminatesPod() || p.KillReason == PodInitUnknown {
		return ids
	}
	for i := range pod.Spec.Containers {
		c := status.Latest(pod.Spec.Containers[i].Name)
		if c.Live() && restartPolicy(pod, &pod.Spec.Containers[i]) != v1.RestartPolicyNever && !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// RestartsAfter reports whether the spec restarts a container after the given exit code, and why,
// also if the pod is being deleted. A restart rule that matches the exit code does (KEP-5307);
// without one the restart policy decides. A nil container, or one without a pod, does not restart.
func RestartsAfter(pod *v1.Pod, c *v1.Container, exitCode int32) (again bool, why Reason) {
	if pod == nil || c == nil {
		return false, ReasonNone
	}
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

// matchingRule returns c's first restart rule that matches the exit code.
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
