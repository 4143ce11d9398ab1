package cri

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The interfaces below are the roles a container runtime plays, in the
// signature of the generated clients: runtimeapi.NewRuntimeServiceClient(conn)
// and runtimeapi.NewImageServiceClient(conn), of any connection or wrapped in
// anything, fit as they are. So does a *Client.

// identifier says who the runtime is and how it does.
type identifier interface {
	Version(context.Context, *runtimeapi.VersionRequest, ...grpc.CallOption) (*runtimeapi.VersionResponse, error)
	Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error)
}

// StatusCalls are the calls that read the state.
type StatusCalls interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error)
	PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest, ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error)
}

// SandboxRunner makes pod sandboxes, finds them again, and ends them.
type SandboxRunner interface {
	RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error)
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error)
}

// ContainerRunner makes containers, finds them again, and ends them.
type ContainerRunner interface {
	CreateContainer(context.Context, *runtimeapi.CreateContainerRequest, ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error)
	StartContainer(context.Context, *runtimeapi.StartContainerRequest, ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	StopContainer(context.Context, *runtimeapi.StopContainerRequest, ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error)
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest, ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error)
}

// ContainerUpdater changes the resources of running containers.
type ContainerUpdater interface {
	UpdateContainerResources(context.Context, *runtimeapi.UpdateContainerResourcesRequest, ...grpc.CallOption) (*runtimeapi.UpdateContainerResourcesResponse, error)
}

// Execer runs a command in a container and waits for it.
type Execer interface {
	ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error)
}

// EventStreamer streams container events.
type EventStreamer interface {
	GetContainerEvents(context.Context, *runtimeapi.GetEventsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error)
}

// ImagePuller inspects and pulls images.
type ImagePuller interface {
	ImageStatus(context.Context, *runtimeapi.ImageStatusRequest, ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error)
	PullImage(context.Context, *runtimeapi.PullImageRequest, ...grpc.CallOption) (*runtimeapi.PullImageResponse, error)
}

var (
	_ identifier       = runtimeapi.RuntimeServiceClient(nil)
	_ StatusCalls      = runtimeapi.RuntimeServiceClient(nil)
	_ SandboxRunner    = runtimeapi.RuntimeServiceClient(nil)
	_ ContainerRunner  = runtimeapi.RuntimeServiceClient(nil)
	_ ContainerUpdater = runtimeapi.RuntimeServiceClient(nil)
	_ Execer           = runtimeapi.RuntimeServiceClient(nil)
	_ EventStreamer    = runtimeapi.RuntimeServiceClient(nil)
	_ ImagePuller      = runtimeapi.ImageServiceClient(nil)
)
