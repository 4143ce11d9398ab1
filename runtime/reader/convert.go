package reader

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
)

// sandboxState returns CRI's sandbox state as package runtime's. A value that CRI does not define becomes
// SandboxNotReady.
func sandboxState(s runtimeapi.PodSandboxState) runtime.SandboxState {
	if s == runtimeapi.PodSandboxState_SANDBOX_READY {
		return runtime.SandboxReady
	}
	return runtime.SandboxNotReady
}

// containerState returns CRI's container state as package runtime's. A value that CRI does not define becomes
// ContainerUnknown.
func containerState(s runtimeapi.ContainerState) runtime.ContainerState {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return runtime.ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return runtime.ContainerRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return runtime.ContainerExited
	}
	return runtime.ContainerUnknown
}

// SandboxStatus converts an answer from PodSandboxStatus. It does not retain s.
func SandboxStatus(s *runtimeapi.PodSandboxStatus) runtime.SandboxStatus {
	mode := namespaceMode(s.GetLinux().GetNamespaces().GetOptions().GetNetwork())
	return runtime.SandboxStatus{
		ID:             s.GetId(),
		State:          sandboxState(s.GetState()),
		Attempt:        s.GetMetadata().GetAttempt(),
		CreatedAt:      wallClock(s.GetCreatedAt()),
		NetworkMode:    mode,
		Network:        sandboxNetwork(s.GetNetwork(), mode),
		RuntimeHandler: s.GetRuntimeHandler(),
	}
}

// listedSandbox converts a listed sandbox, which has no network.
func listedSandbox(s *runtimeapi.PodSandbox) runtime.SandboxStatus {
	return runtime.SandboxStatus{
		ID:             s.GetId(),
		State:          sandboxState(s.GetState()),
		Attempt:        s.GetMetadata().GetAttempt(),
		CreatedAt:      wallClock(s.GetCreatedAt()),
		RuntimeHandler: s.GetRuntimeHandler(),
	}
}

func namespaceMode(m runtimeapi.NamespaceMode) runtime.NamespaceMode {
	switch m {
	case runtimeapi.NamespaceMode_CONTAINER:
		return runtime.NamespaceContainer
	case runtimeapi.NamespaceMode_NODE:
		return runtime.NamespaceNode
	case runtimeapi.NamespaceMode_TARGET:
		return runtime.NamespaceTarget
	}
	return runtime.NamespacePod
}

// sandboxNetwork returns the valid addresses in the runtime's order. A sandbox on the node's network has no own
// addresses, whatever the runtime reports.
func sandboxNetwork(n *runtimeapi.PodSandboxNetworkStatus, mode runtime.NamespaceMode) *runtime.SandboxNetwork {
	if n == nil {
		return nil
	}
	network := &runtime.SandboxNetwork{}
	if mode == runtime.NamespaceNode {
		return network
	}
	addresses := append([]*runtimeapi.PodIP{{Ip: n.GetIp()}}, n.GetAdditionalIps()...)
	for _, a := range addresses {
		if _, err := netip.ParseAddr(a.GetIp()); err == nil {
			network.IPs = append(network.IPs, a.GetIp())
		}
	}
	return network
}

// ContainerStatus converts a ContainerStatus response. typ is the runtime's name; sandboxID is the
// container's sandbox, which CRI does not repeat here, empty if unknown. It does not retain s.
//
// Name, attempt and hash are those in the labels and annotations; without these, the metadata's. A
// runtime reports rounded resources, which are not a runtime.ContainerResources.
func ContainerStatus(s *runtimeapi.ContainerStatus, typ, sandboxID string) runtime.ContainerStatus {
	return runtime.ContainerStatus{
		ID:           runtime.ContainerID{Type: typ, ID: s.GetId()},
		Name:         containerName(s.GetLabels(), s.GetMetadata()),
		SandboxID:    sandboxID,
		State:        containerState(s.GetState()),
		Attempt:      attempt(s.GetAnnotations(), s.GetMetadata()),
		SpecHash:     specHash(s.GetAnnotations()),
		ExitCode:     s.GetExitCode(),
		Reason:       foreign.Word(s.GetReason()),
		Message:      foreign.Text(s.GetMessage()),
		CreatedAt:    wallClock(s.GetCreatedAt()),
		StartedAt:    wallClock(s.GetStartedAt()),
		FinishedAt:   wallClock(s.GetFinishedAt()),
		Image:        foreign.Line(askedImage(s.GetImage())),
		ImageID:      foreign.Line(firstOf(s.GetImageId(), s.GetImageRef())), // ImageId is newer than CRI v1
		ImageRef:     foreign.Line(s.GetImageRef()),
		ImageVolumes: foreign.Line(s.GetAnnotations()[runtime.AnnotationImageVolumes]),
		Reported:     reportedResources(s.GetResources().GetLinux()),
		User:         containerUser(s.GetUser().GetLinux()),
		StopSignal:   signalName(s.GetStopSignal()),
	}
}

// reportedResources converts a cgroup's values to API amounts. A zero value was not set.
func reportedResources(r *runtimeapi.LinuxContainerResources) *runtime.ReportedResources {
	if r == nil {
		return nil
	}
	reported := &runtime.ReportedResources{
		CPURequest:  positive((r.GetCpuShares()*1000 + 1023) / 1024),
		MemoryLimit: positive(r.GetMemoryLimitInBytes()),
	}
	if r.GetCpuPeriod() > 0 && r.GetCpuQuota() > 0 {
		reported.CPULimit = positive(int64(float64(r.GetCpuQuota()) * 1000 / float64(r.GetCpuPeriod())))
	}
	if *reported == (runtime.ReportedResources{}) {
		return nil
	}
	return reported
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// maxGroups is the maximum number of a user's groups. An image's /etc/group may have as many as the kernel lets a process
// have, 65,536, and a status repeats those of each container.
const maxGroups = 1 << 10

func containerUser(u *runtimeapi.LinuxContainerUser) *runtime.ContainerUser {
	if u == nil {
		return nil
	}
	groups := u.GetSupplementalGroups()
	return &runtime.ContainerUser{UID: u.GetUid(), GID: u.GetGid(), Groups: slices.Clone(groups[:min(len(groups), maxGroups)])}
}

// signalName converts a signal to the API's form: CRI spells out the signs in real-time signals.
func signalName(s runtimeapi.Signal) string {
	name, known := strings.CutPrefix(s.String(), "SIGNAL_")
	if !known || s == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return ""
	}
	return strings.NewReplacer("PLUS", "+", "MINUS", "-").Replace(name)
}

func containerName(labels map[string]string, m *runtimeapi.ContainerMetadata) string {
	return firstOf(labels[runtime.LabelContainerName], m.GetName())
}

func attempt(annotations map[string]string, m *runtimeapi.ContainerMetadata) uint32 {
	if n, err := strconv.ParseUint(annotations[runtime.AnnotationRestartCount], 10, 32); err == nil {
		return uint32(n)
	}
	return m.GetAttempt()
}

// specHash returns the recorded hash. It returns 0, which no spec has, if there is none or it cannot be parsed.
func specHash(annotations map[string]string) uint64 {
	hash, err := strconv.ParseUint(annotations[runtime.AnnotationHash], 16, 64)
	if err != nil {
		return 0
	}
	return hash
}

func askedImage(s *runtimeapi.ImageSpec) string {
	return firstOf(s.GetUserSpecifiedImage(), s.GetImage())
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// wallClock converts CRI's nanoseconds since 1970, in which 0 means not yet or unknown. A zero
// time.Time becomes a negative number, which also means unknown.
func wallClock(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
