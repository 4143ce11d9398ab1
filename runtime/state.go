package runtime

// ContainerState is a container's state, as in CRI's ContainerState. The zero value is
// ContainerUnknown.
type ContainerState uint8

const (
	// ContainerUnknown means that the runtime cannot determine whether the container's process is
	// alive. The container must be stopped before it is replaced.
	ContainerUnknown ContainerState = iota
	// ContainerCreated means that the container exists. As far as the runtime knows, its process has
	// never been started.
	ContainerCreated
	// ContainerRunning means that the container's process is alive.
	ContainerRunning
	// ContainerExited means that the container's process has ended.
	ContainerExited
)

// String returns the state in one lower-case word.
func (s ContainerState) String() string {
	switch s {
	case ContainerCreated:
		return "created"
	case ContainerRunning:
		return "running"
	case ContainerExited:
		return "exited"
	}
	return "unknown"
}

// SandboxState is whether a pod sandbox can hold containers, as in CRI's PodSandboxState. The zero
// value is SandboxNotReady.
type SandboxState uint8

const (
	// SandboxNotReady means that the sandbox has been stopped or was lost.
	// Containers in it may still be alive.
	SandboxNotReady SandboxState = iota
	// SandboxReady means that containers can be started in the sandbox.
	SandboxReady
)

// String returns the state in lower-case words.
func (s SandboxState) String() string {
	if s == SandboxReady {
		return "ready"
	}
	return "not ready"
}

// NamespaceMode is which containers share a sandbox's namespace, as in CRI's NamespaceMode. The zero value is
// NamespacePod.
type NamespaceMode uint8

const (
	// NamespacePod is shared by one pod's containers.
	NamespacePod NamespaceMode = iota
	// NamespaceContainer is private to one container.
	NamespaceContainer
	// NamespaceNode is the node's namespace.
	NamespaceNode
	// NamespaceTarget is another, named container's namespace.
	NamespaceTarget
)

// String returns the mode in one lower-case word.
func (m NamespaceMode) String() string {
	switch m {
	case NamespaceContainer:
		return "container"
	case NamespaceNode:
		return "node"
	case NamespaceTarget:
		return "target"
	}
	return "pod"
}
