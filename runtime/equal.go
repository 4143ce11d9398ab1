package runtime

import (
	"slices"
)

// Equal reports whether two statuses describe the same state. It ignores when they were read and
// the time zones in their times. A status without sandboxes and containers equals nil: the runtime
// has no object for the pod.
func (s *PodStatus) Equal(other *PodStatus) bool {
	if s.Empty() || other.Empty() {
		return s.Empty() && other.Empty()
	}
	return s.UID == other.UID && s.Name == other.Name && s.Namespace == other.Namespace &&
		slices.EqualFunc(s.Sandboxes, other.Sandboxes, equalSandboxes) &&
		slices.EqualFunc(s.Containers, other.Containers, equalContainers)
}

// Empty reports whether the runtime has no sandbox and no container in the pod.
func (s *PodStatus) Empty() bool {
	return s == nil || len(s.Sandboxes) == 0 && len(s.Containers) == 0
}

// equalSandboxes compares pointers and times field by field, and everything else with ==, so that
// an added field is compared.
func equalSandboxes(a, b SandboxStatus) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !equalNetworks(a.Network, b.Network) {
		return false
	}
	a.CreatedAt, a.Network = b.CreatedAt, b.Network
	return a == b
}

func equalNetworks(a, b *SandboxNetwork) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.IPs, b.IPs)
}

func equalContainers(a, b ContainerStatus) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !a.StartedAt.Equal(b.StartedAt) || !a.FinishedAt.Equal(b.FinishedAt) ||
		!equalValues(a.Resources, b.Resources) || !equalValues(a.CPUSet, b.CPUSet) || !equalReports(a.Reported, b.Reported) || !equalUsers(a.User, b.User) {
		return false
	}
	a.CreatedAt, a.StartedAt, a.FinishedAt = b.CreatedAt, b.StartedAt, b.FinishedAt
	a.Resources, a.CPUSet, a.Reported, a.User = b.Resources, b.CPUSet, b.Reported, b.User
	return a == b
}

func equalValues[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func equalReports(a, b *ReportedResources) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equalValues(a.CPURequest, b.CPURequest) && equalValues(a.CPULimit, b.CPULimit) &&
		equalValues(a.MemoryRequest, b.MemoryRequest) && equalValues(a.MemoryLimit, b.MemoryLimit)
}

func equalUsers(a, b *ContainerUser) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.GID == b.GID && slices.Equal(a.Groups, b.Groups)
}
