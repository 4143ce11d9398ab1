package actions

// KillMessage returns why a container is stopped: the text of the Killing event, in a kubelet's
// words, and of Explain. restart means that the plan starts the container again.
func KillMessage(container string, why Reason, restart bool) string {
	message := "Stopping container " + container
	switch why {
	case LivenessFailed:
		message = "Container " + container + " failed liveness probe"
	case StartupFailed:
		message = "Container " + container + " failed startup probe"
	case SpecChanged:
		message = "Container " + container + " definition changed"
	case ContainerStateUnknown:
		message = "Container " + container + " is in unknown state"
	case ResizeRestart:
		return "Container " + container + " resize requires restart"
	}
	if restart {
		message += ", will be restarted"
	}
	return message
}

// SandboxMessage returns why the pod's sandbox is replaced: the text of the SandboxChanged event,
// in a kubelet's words, and of Explain. It is empty if the plan replaces no sandbox.
func (p *Plan) SandboxMessage() string {
	if !p.KillPod || !p.Sandbox.Create || p.KillReason == SandboxMissing {
		return ""
	}
	return "Pod sandbox changed, it will be killed and re-created."
}
