package cri

import (
	"context"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The interfaces below are a container runtime's roles. They have the generated clients' signatures, so
// runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn), their wrappers and a *Client
// implement them.

// identifier reports the runtime's name, version and condition.
type identifier interface {
	Version(context.Context, *runtimeapi.VersionRequest, ...grpc.CallOption) (*runtimeapi.VersionResponse, error)
	Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error)
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
	_ Execer      = runtimeapi.RuntimeServiceClient(nil)
	_ ImagePuller = runtimeapi.ImageServiceClient(nil)
)
