package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// judgeSandbox decides whether the pod can keep its latest sandbox. Whether a new one is created
// depends on the containers: see replaceSandbox.
func (d *decision) judgeSandbox() SandboxStep {
	step := SandboxStep{Reason: SandboxFault(d.Pod, d.Status)}
	if step.Reason == SandboxNoAddress && d.AddressWait.Holds() {
		step.Reason, step.Hold = ReasonNone, d.AddressWait
	}
	if latest := d.sandbox; latest != nil {
		step.ID, step.Attempt = latest.ID, latest.Attempt
		if step.Reason != ReasonNone {
			step.Attempt = following(step.Attempt)
		}
	}
	return step
}

// SandboxFault returns why the pod cannot keep its latest sandbox, ReasonNone if it can. The pod is
// required; a nil status has no sandbox.
func SandboxFault(pod *v1.Pod, status *runtime.PodStatus) Reason {
	latest := status.LatestSandbox()
	switch {
	case latest == nil:
		return SandboxMissing
	case readySandboxes(status) > 1:
		return SandboxMultipleReady
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

// replaceSandbox stops the pod and, if a container must run again, creates a new sandbox and starts
// over in it. It never creates a sandbox in which no container would run (kubernetes #92613).
func (d *decision) replaceSandbox() {
	d.killPod(d.plan.Sandbox.Reason)
	if d.ranItsOnce() || !d.anyToRerun() {
		return
	}
	d.plan.Sandbox.Create = true
	if d.nothingThere() {
		d.plan.KillPod, d.plan.KillReason = false, ReasonNone
	}
	if len(d.Pod.Spec.InitContainers) > 0 {
		d.take(initRef(d.Pod, 0), nil, verdict{start: true, why: StartsInSandbox})
		return
	}
	for i := range d.Pod.Spec.Containers {
		if d.rerunsInNewSandbox(regularRef(d.Pod, i)) {
			d.take(regularRef(d.Pod, i), nil, verdict{start: true, why: StartsInSandbox})
		}
	}
}

// nothingThere reports whether the runtime has nothing for the pod to stop.
func (d *decision) nothingThere() bool {
	return d.Status == nil || len(d.Status.Sandboxes) == 0 && len(d.Status.Containers) == 0
}

// HasRunOnce reports whether a pod with restart policy Never has run, so that it never starts over: an instance of a regular
// container has run, or an init container has failed.
func HasRunOnce(pod *v1.Pod, status *runtime.PodStatus) bool {
	if pod == nil || pod.Spec.RestartPolicy != v1.RestartPolicyNever || status == nil {
		return false
	}
	for i := range status.Containers {
		if ref, found := FindContainer(pod, status.Containers[i].Name); found && ref.Kind == RegularContainer && status.Containers[i].HasRun() {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		c := status.Latest(pod.Spec.InitContainers[i].Name)
		if c != nil && c.State == runtime.ContainerExited && c.ExitCode != 0 && !runtime.IsSidecar(&pod.Spec.InitContainers[i]) {
			return true
		}
	}
	return false
}

// ranItsOnce reports whether a pod with restart policy Never has already run, even if the runtime has no sandbox for the pod any
// more (kubernetes #51142). A kubelet counts a container that was never started as run, and such a pod waits forever. If the
// status is not complete, any container that has run in a sandbox counts, including init containers and sidecars, as in a
// kubelet. A deleted pod never starts over.
func (d *decision) ranItsOnce() bool {
	switch {
	case d.Pod.Spec.RestartPolicy != v1.RestartPolicyNever:
		return false
	case d.StatusComplete && HasRunOnce(d.Pod, d.Status):
		return true
	case d.plan.Sandbox.Reason == SandboxMissing, d.StatusComplete && d.Pod.DeletionTimestamp == nil:
		return false
	}
	for i := range d.Status.Containers {
		if d.Status.Containers[i].HasRun() {
			return true
		}
	}
	return false
}

func (d *decision) anyToRerun() bool {
	for i := range d.Pod.Spec.Containers {
		if d.rerunsInNewSandbox(regularRef(d.Pod, i)) {
			return true
		}
	}
	return false
}

// rerunsInNewSandbox reports whether a regular container runs again because its sandbox is lost:
// all do, except those that succeeded under the policy OnFailure and were not stopped for a restart. Restart rules do not apply,
// because the restart is not caused by an exit.
func (d *decision) rerunsInNewSandbox(ref ContainerRef) bool {
	c := d.current(ref)
	succeeded := c != nil && c.State == runtime.ContainerExited && c.ExitCode == 0 && !d.isRestarting(c)
	return !succeeded || restartPolicy(d.Pod, ref.Spec(d.Pod)) != v1.RestartPolicyOnFailure
}
