package critest

import (
	"path"
	"slices"

	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// Method is the short name of a CRI call: see [journal.Method].
type Method = journal.Method

// The calls that the runtime implements. All others return Unimplemented.
const (
	version             Method = "Version"
	Status              Method = "Status"
	runtimeConfig       Method = "RuntimeConfig"
	updateRuntimeConfig Method = "UpdateRuntimeConfig"

	RunPodSandbox             Method = "RunPodSandbox"
	StopPodSandbox            Method = "StopPodSandbox"
	RemovePodSandbox          Method = "RemovePodSandbox"
	PodSandboxStatus          Method = "PodSandboxStatus"
	ListPodSandbox            Method = "ListPodSandbox"
	podSandboxStats           Method = "PodSandboxStats"
	ListPodSandboxStats       Method = "ListPodSandboxStats"
	UpdatePodSandboxResources Method = "UpdatePodSandboxResources"

	CreateContainer          Method = "CreateContainer"
	StartContainer           Method = "StartContainer"
	StopContainer            Method = "StopContainer"
	RemoveContainer          Method = "RemoveContainer"
	ContainerStatus          Method = "ContainerStatus"
	ListContainers           Method = "ListContainers"
	UpdateContainerResources Method = "UpdateContainerResources"
	ReopenContainerLog       Method = "ReopenContainerLog"
	ExecSync                 Method = "ExecSync"
	execStream               Method = "Exec"
	attach                   Method = "Attach"
	portForward              Method = "PortForward"
	ContainerStats           Method = "ContainerStats"
	ListContainerStats       Method = "ListContainerStats"
	GetContainerEvents       Method = "GetContainerEvents"

	PullImage   Method = "PullImage"
	ImageStatus Method = "ImageStatus"
	ListImages  Method = "ListImages"
	RemoveImage Method = "RemoveImage"
	ImageFsInfo Method = "ImageFsInfo"
)

var methods = []Method{
	version, Status, runtimeConfig, updateRuntimeConfig,
	RunPodSandbox, StopPodSandbox, RemovePodSandbox, PodSandboxStatus, ListPodSandbox,
	podSandboxStats, ListPodSandboxStats, UpdatePodSandboxResources,
	CreateContainer, StartContainer, StopContainer, RemoveContainer, ContainerStatus, ListContainers,
	UpdateContainerResources, ReopenContainerLog, ExecSync, execStream, attach, portForward, ContainerStats, ListContainerStats, GetContainerEvents,
	PullImage, ImageStatus, ListImages, RemoveImage, ImageFsInfo,
}

func known(m Method) bool { return slices.Contains(methods, m) }

// hasMidway reports whether the method has a point at which names are reserved, or the process is about
// to be created, and nothing is visible yet.
func hasMidway(m Method) bool {
	switch m {
	case RunPodSandbox, CreateContainer, StartContainer, PullImage:
		return true
	}
	return false
}

func methodOf(fullMethod string) Method { return Method(path.Base(fullMethod)) }
