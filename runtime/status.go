package runtime

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodStatus is one pod snapshot as a runtime reports it: all its sandboxes and containers,
// including dead ones.
//
// A nil *PodStatus means that the runtime has no object for the pod. All methods accept nil.
type PodStatus struct {
	UID       types.UID
	Name      string
	Namespace string
	// Sandboxes are all the pod's sandboxes that the runtime still has. The order matters only for
	// equal attempts: the first counts as newer.
	Sandboxes []SandboxStatus
	// Containers are all the pod's containers that the runtime still has, in all sandboxes. The
	// order matters only for equal attempts with one name: the running container counts as
	// newer, otherwise the first.
	Containers []ContainerStatus
	// ObservedAt is when the read that produced this snapshot began: the snapshot includes
	// everything that happened before. Zero if unknown.
	ObservedAt time.Time
}

// SandboxStatus is one pod sandbox as a runtime reports it.
type SandboxStatus struct {
	// ID is the runtime's identifier for the sandbox.
	ID string
	// State is whether containers can be started in the sandbox.
	State SandboxState
	// NetworkMode is the network namespace with which the sandbox was created.
	NetworkMode NamespaceMode
	// Attempt counts the pod's sandboxes, from 0.
	Attempt uint32
	// Network is the sandbox's network, nil if the runtime reported none.
	Network *SandboxNetwork
	// CreatedAt is the runtime's wall clock at the creation, for display only.
	CreatedAt time.Time
	// RuntimeHandler is the handler (of a RuntimeClass) that runs the sandbox. Empty means the
	// runtime's default.
	RuntimeHandler string
}

// SandboxNetwork is a sandbox's network.
type SandboxNetwork struct {
	// IPs are the pod's addresses, the primary first. Empty until the network is set up, and for a
	// sandbox in the node's network.
	IPs []string `json:"ips,omitempty"`
}

// ContainerStatus is one container as a runtime reports it. Each attempt to run a container of the
// pod's spec is its own container.
type ContainerStatus struct {
	// Name is the container's name in the pod's spec.
	Name string
	// State is the container's state.
	State ContainerState
	// Attempt counts the containers with this name in the pod, from 0. It is
	// the restart count in the Kubernetes API.
	Attempt uint32
	// ExitCode is the process's exit code. It is meaningful only if State is ContainerExited.
	ExitCode int32
	// SpecHash is the container spec's hash, recorded at creation; see HashContainer. Zero means
	// that no hash was recorded; such a container counts as unchanged.
	SpecHash uint64
	// SandboxID is the sandbox in which the container was created. Empty means unknown; such a
	// container belongs to the latest sandbox.
	SandboxID string
	// ID identifies the container.
	ID ContainerID
	// Reason and Message are how the runtime explains the state, verbatim ("Completed",
	// "Error", "OOMKilled").
	Reason  string
	Message string
	// CreatedAt, StartedAt and FinishedAt are times on the runtime's wall clock, zero if the event
	// has not happened or is unknown. They never decide an order.
	CreatedAt, StartedAt, FinishedAt time.Time
	// Image is the requested image, ImageID the runtime's identifier for it, and ImageRef its
	// digest, if it has one.
	Image, ImageID, ImageRef string
	// ImageVolumes are the identifiers of the images that the container mounts as volumes, separated by spaces; see
	// AnnotationImageVolumes.
	ImageVolumes string
	// Resources are the resources in effect in the running container, nil if unknown; see
	// ContainerResources.
	Resources *ContainerResources
	// CPUSet is the one in effect in the running container, nil if unknown.
	CPUSet *CPUSet
	// Reported are the resources that the runtime reports, nil if it reports none. No decision
	// depends on them.
	Reported *ReportedResources
	// User is the user of the container's first process, nil if the runtime does not report it.
	User *ContainerUser
	// StopSignal is the container's stop signal, in the API's form ("SIGTERM"), empty if the
	// runtime does not report it.
	StopSignal string
}

// ContainerUser is the user and groups of a process.
type ContainerUser struct {
	// UID and GID are numbers in the container's user namespace.
	UID int64 `json:"uid"`
	GID int64 `json:"gid"`
	// Groups are the supplemental groups.
	Groups []int64 `json:"groups,omitempty"`
}

// HasRun reports whether a container was started. A container that was created and never started has not run (kubernetes #118321,
// #123839), and neither has a nil one.
func (c *ContainerStatus) HasRun() bool { return c != nil && c.State != ContainerCreated }

// Latest returns the current container with that name, nil if there is none. It is the container
// with the highest attempt; between equal attempts, the running one, and otherwise the first
// listed.
func (s *PodStatus) Latest(name string) *ContainerStatus {
	if s == nil {
		return nil
	}
	var latest *ContainerStatus
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && (latest == nil || c.NewerThan(latest)) {
			latest = c
		}
	}
	return latest
}

// NewerThan reports whether c replaces other as the current container. Both have the same name, and
// other is listed before c. Nil is older than any container.
func (c *ContainerStatus) NewerThan(other *ContainerStatus) bool {
	if c == nil || other == nil {
		return c != nil
	}
	if c.Attempt != other.Attempt {
		return c.Attempt > other.Attempt
	}
	return c.State == ContainerRunning && other.State != ContainerRunning
}

// LatestSandbox returns the sandbox with the highest attempt, nil if there is none. Between equal
// attempts, the first listed counts.
func (s *PodStatus) LatestSandbox() *SandboxStatus {
	if s == nil {
		return nil
	}
	var latest *SandboxStatus
	for i := range s.Sandboxes {
		if sb := &s.Sandboxes[i]; latest == nil || sb.Attempt > latest.Attempt {
			latest = sb
		}
	}
	return latest
}

// ActiveSandbox returns the latest sandbox if it is ready, and nil otherwise.
func (s *PodStatus) ActiveSandbox() *SandboxStatus {
	if sb := s.LatestSandbox(); sb != nil && sb.State == SandboxReady {
		return sb
	}
	return nil
}

// In reports whether c was created in sb. A container whose sandbox is unknown counts as created in sb.
func (c *ContainerStatus) In(sb *SandboxStatus) bool {
	return c != nil && (c.SandboxID == "" || sb != nil && c.SandboxID == sb.ID)
}

// Live reports whether c has a process or may get one. Only an exited container has none for sure.
// A created container is Live, because a start that timed out can still happen.
func (c *ContainerStatus) Live() bool { return c != nil && c.State != ContainerExited }

// Live reports whether any pod part is alive: a Live container or a ready sandbox.
func (s *PodStatus) Live() bool {
	if s == nil {
		return false
	}
	for i := range s.Containers {
		if s.Containers[i].Live() {
			return true
		}
	}
	for i := range s.Sandboxes {
		if s.Sandboxes[i].State == SandboxReady {
			return true
		}
	}
	return false
}

// IPs returns the pod's addresses, the primary first. They are its active sandbox's. The slice
// belongs to the status.
func (s *PodStatus) IPs() []string {
	if sb := s.ActiveSandbox(); sb != nil && sb.Network != nil {
		return sb.Network.IPs
	}
	return nil
}
