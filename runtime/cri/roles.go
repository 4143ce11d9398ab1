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

// statusCalls are the calls that read the state.
type statusCalls interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error)
	PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest, ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error)
}

// Execer runs a command in a container and waits for it.
type Execer interface {
	ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error)
}

// ImagePuller inspects and pulls images.
type ImagePuller interface {
	ImageStatus(context.Context, *runtimeapi.ImageStatusRequest, ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error)
	PullImage(context.Context, *runtimeapi.PullImageRequest, ...grpc.CallOption) (*runtimeapi.PullImageResponse, error)
}

var (
	_ identifier  = runtimeapi.RuntimeServiceClient(nil)
	_ statusCalls = runtimeapi.RuntimeServiceClient(nil)
	_ Execer      = runtimeapi.RuntimeServiceClient(nil)
	_ ImagePuller = runtimeapi.ImageServiceClient(nil)
)
