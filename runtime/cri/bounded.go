package cri

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// New returns a Client for any implementation with the two generated clients: a wrapper around a connection, or a runtime
// in the same process, without gRPC. Its calls have the default Timeouts; [Timeouts.Client] returns a Client with others.
//
// An implementation without gRPC returns when a call's context ends. Its errors may be any that [Classify] knows:
// errors from package status, an *Error with a class, and those from package context. It returns errors.ErrUnsupported,
// or the code Unimplemented, from calls that it does not have: an agent can do without GetContainerEvents, the calls for
// statistics and RuntimeConfig, for example. Close does nothing. The runtime's name is unknown, so pass it on, for
// example as syncpod.Config.RuntimeName.
//
// Either service may be nil for a program that does not use it: its calls return an error of class ErrUnimplemented, and
// [Client.Validate] an error, because an agent needs both.
func New(runtime runtimeapi.RuntimeServiceClient, image runtimeapi.ImageServiceClient) *Client {
	return Timeouts{}.Client(runtime, image)
}

// Client returns a Client as New does, whose calls are limited by t.
func (t Timeouts) Client(runtime runtimeapi.RuntimeServiceClient, image runtimeapi.ImageServiceClient) *Client {
	t = t.withDefaults()
	c := &Client{pods: runtime, lacks: runtime == nil || image == nil}
	none := newClient(noConn{})
	if runtime == nil {
		runtime = none.RuntimeServiceClient
	}
	if image == nil {
		image = none.ImageServiceClient
	}
	c.RuntimeServiceClient, c.ImageServiceClient = boundedRuntime{runtime, t}, boundedImages{image, t}
	return c
}

// noConn takes the place of a service that the caller does not have.
type noConn struct{}

func (noConn) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	return &Error{Class: ErrUnimplemented, Err: fmt.Errorf("the Client was made without the service of %s", method)}
}

func (c noConn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, c.Invoke(ctx, method, nil, nil)
}

// boundedRuntime and boundedImages limit each call's duration, and bound its error's text. Streams end with their contexts.
type boundedRuntime struct {
	runtimeapi.RuntimeServiceClient
	timeouts Timeouts
}

type boundedImages struct {
	runtimeapi.ImageServiceClient
	timeouts Timeouts
}

// bound makes a call that ends when its timeout has passed, and whose error has a bounded text.
func bound[Request, Response any](ctx context.Context, t Timeouts, in Request, opts []grpc.CallOption, call func(context.Context, Request, ...grpc.CallOption) (Response, error)) (Response, error) {
	ctx, cancel := t.limit(ctx, in)
	defer cancel()
	response, err := call(ctx, in, opts...)
	return response, boundText(err)
}

// open opens a stream whose errors have bounded texts.
func open[Request, Message any](ctx context.Context, in Request, opts []grpc.CallOption, call func(context.Context, Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Message], error)) (grpc.ServerStreamingClient[Message], error) {
	stream, err := call(ctx, in, opts...)
	if err != nil {
		return nil, boundText(err)
	}
	return boundedMessages[Message]{stream}, nil
}

type boundedMessages[Message any] struct {
	grpc.ServerStreamingClient[Message]
}

func (s boundedMessages[Message]) Recv() (*Message, error) {
	message, err := s.ServerStreamingClient.Recv()
	return message, boundText(err)
}

func (s boundedMessages[Message]) RecvMsg(m any) error {
	return boundText(s.ServerStreamingClient.RecvMsg(m))
}

func (b boundedRuntime) Version(ctx context.Context, in *runtimeapi.VersionRequest, opts ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.Version)
}

func (b boundedRuntime) RunPodSandbox(ctx context.Context, in *runtimeapi.RunPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.RunPodSandbox)
}

func (b boundedRuntime) StopPodSandbox(ctx context.Context, in *runtimeapi.StopPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.StopPodSandbox)
}

func (b boundedRuntime) RemovePodSandbox(ctx context.Context, in *runtimeapi.RemovePodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.RemovePodSandbox)
}

func (b boundedRuntime) PodSandboxStatus(ctx context.Context, in *runtimeapi.PodSandboxStatusRequest, opts ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.PodSandboxStatus)
}

func (b boundedRuntime) ListPodSandbox(ctx context.Context, in *runtimeapi.ListPodSandboxRequest, opts ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ListPodSandbox)
}

func (b boundedRuntime) CreateContainer(ctx context.Context, in *runtimeapi.CreateContainerRequest, opts ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.CreateContainer)
}

func (b boundedRuntime) StartContainer(ctx context.Context, in *runtimeapi.StartContainerRequest, opts ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.StartContainer)
}

func (b boundedRuntime) StopContainer(ctx context.Context, in *runtimeapi.StopContainerRequest, opts ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.StopContainer)
}

func (b boundedRuntime) RemoveContainer(ctx context.Context, in *runtimeapi.RemoveContainerRequest, opts ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.RemoveContainer)
}

func (b boundedRuntime) ListContainers(ctx context.Context, in *runtimeapi.ListContainersRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ListContainers)
}

func (b boundedRuntime) ContainerStatus(ctx context.Context, in *runtimeapi.ContainerStatusRequest, opts ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ContainerStatus)
}

func (b boundedRuntime) UpdateContainerResources(ctx context.Context, in *runtimeapi.UpdateContainerResourcesRequest, opts ...grpc.CallOption) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.UpdateContainerResources)
}

func (b boundedRuntime) ReopenContainerLog(ctx context.Context, in *runtimeapi.ReopenContainerLogRequest, opts ...grpc.CallOption) (*runtimeapi.ReopenContainerLogResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ReopenContainerLog)
}

func (b boundedRuntime) ExecSync(ctx context.Context, in *runtimeapi.ExecSyncRequest, opts ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ExecSync)
}

func (b boundedRuntime) Exec(ctx context.Context, in *runtimeapi.ExecRequest, opts ...grpc.CallOption) (*runtimeapi.ExecResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.Exec)
}

func (b boundedRuntime) Attach(ctx context.Context, in *runtimeapi.AttachRequest, opts ...grpc.CallOption) (*runtimeapi.AttachResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.Attach)
}

func (b boundedRuntime) PortForward(ctx context.Context, in *runtimeapi.PortForwardRequest, opts ...grpc.CallOption) (*runtimeapi.PortForwardResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.PortForward)
}

func (b boundedRuntime) ContainerStats(ctx context.Context, in *runtimeapi.ContainerStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ContainerStatsResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ContainerStats)
}

func (b boundedRuntime) ListContainerStats(ctx context.Context, in *runtimeapi.ListContainerStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainerStatsResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ListContainerStats)
}

func (b boundedRuntime) PodSandboxStats(ctx context.Context, in *runtimeapi.PodSandboxStatsRequest, opts ...grpc.CallOption) (*runtimeapi.PodSandboxStatsResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.PodSandboxStats)
}

func (b boundedRuntime) ListPodSandboxStats(ctx context.Context, in *runtimeapi.ListPodSandboxStatsRequest, opts ...grpc.CallOption) (*runtimeapi.ListPodSandboxStatsResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ListPodSandboxStats)
}

func (b boundedRuntime) UpdateRuntimeConfig(ctx context.Context, in *runtimeapi.UpdateRuntimeConfigRequest, opts ...grpc.CallOption) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.UpdateRuntimeConfig)
}

func (b boundedRuntime) Status(ctx context.Context, in *runtimeapi.StatusRequest, opts ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.Status)
}

func (b boundedRuntime) CheckpointContainer(ctx context.Context, in *runtimeapi.CheckpointContainerRequest, opts ...grpc.CallOption) (*runtimeapi.CheckpointContainerResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.CheckpointContainer)
}

func (b boundedRuntime) CheckpointPod(ctx context.Context, in *runtimeapi.CheckpointPodRequest, opts ...grpc.CallOption) (*runtimeapi.CheckpointPodResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.CheckpointPod)
}

func (b boundedRuntime) RestorePod(ctx context.Context, in *runtimeapi.RestorePodRequest, opts ...grpc.CallOption) (*runtimeapi.RestorePodResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.RestorePod)
}

func (b boundedRuntime) ListMetricDescriptors(ctx context.Context, in *runtimeapi.ListMetricDescriptorsRequest, opts ...grpc.CallOption) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ListMetricDescriptors)
}

func (b boundedRuntime) ListPodSandboxMetrics(ctx context.Context, in *runtimeapi.ListPodSandboxMetricsRequest, opts ...grpc.CallOption) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.ListPodSandboxMetrics)
}

func (b boundedRuntime) RuntimeConfig(ctx context.Context, in *runtimeapi.RuntimeConfigRequest, opts ...grpc.CallOption) (*runtimeapi.RuntimeConfigResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.RuntimeConfig)
}

func (b boundedRuntime) UpdatePodSandboxResources(ctx context.Context, in *runtimeapi.UpdatePodSandboxResourcesRequest, opts ...grpc.CallOption) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.RuntimeServiceClient.UpdatePodSandboxResources)
}

func (b boundedImages) ListImages(ctx context.Context, in *runtimeapi.ListImagesRequest, opts ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.ImageServiceClient.ListImages)
}

func (b boundedImages) ImageStatus(ctx context.Context, in *runtimeapi.ImageStatusRequest, opts ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.ImageServiceClient.ImageStatus)
}

func (b boundedImages) PullImage(ctx context.Context, in *runtimeapi.PullImageRequest, opts ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.ImageServiceClient.PullImage)
}

func (b boundedImages) RemoveImage(ctx context.Context, in *runtimeapi.RemoveImageRequest, opts ...grpc.CallOption) (*runtimeapi.RemoveImageResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.ImageServiceClient.RemoveImage)
}

func (b boundedImages) ImageFsInfo(ctx context.Context, in *runtimeapi.ImageFsInfoRequest, opts ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	return bound(ctx, b.timeouts, in, opts, b.ImageServiceClient.ImageFsInfo)
}

func (b boundedRuntime) StreamPodSandboxes(ctx context.Context, in *runtimeapi.StreamPodSandboxesRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.StreamPodSandboxesResponse], error) {
	return open(ctx, in, opts, b.RuntimeServiceClient.StreamPodSandboxes)
}

func (b boundedRuntime) StreamContainers(ctx context.Context, in *runtimeapi.StreamContainersRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.StreamContainersResponse], error) {
	return open(ctx, in, opts, b.RuntimeServiceClient.StreamContainers)
}

func (b boundedRuntime) StreamContainerStats(ctx context.Context, in *runtimeapi.StreamContainerStatsRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.StreamContainerStatsResponse], error) {
	return open(ctx, in, opts, b.RuntimeServiceClient.StreamContainerStats)
}

func (b boundedRuntime) StreamPodSandboxStats(ctx context.Context, in *runtimeapi.StreamPodSandboxStatsRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.StreamPodSandboxStatsResponse], error) {
	return open(ctx, in, opts, b.RuntimeServiceClient.StreamPodSandboxStats)
}

func (b boundedRuntime) GetContainerEvents(ctx context.Context, in *runtimeapi.GetEventsRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	return open(ctx, in, opts, b.RuntimeServiceClient.GetContainerEvents)
}

func (b boundedRuntime) StreamPodSandboxMetrics(ctx context.Context, in *runtimeapi.StreamPodSandboxMetricsRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.StreamPodSandboxMetricsResponse], error) {
	return open(ctx, in, opts, b.RuntimeServiceClient.StreamPodSandboxMetrics)
}

func (b boundedImages) StreamImages(ctx context.Context, in *runtimeapi.StreamImagesRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.StreamImagesResponse], error) {
	return open(ctx, in, opts, b.ImageServiceClient.StreamImages)
}
