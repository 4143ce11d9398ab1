package cri_test

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// local is a runtime in the same process. It embeds the interface, so that it needs only the methods that are called.
type local struct {
	runtimeapi.RuntimeServiceClient
}

func (local) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Id: "s0"}}}, nil
}

func (local) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	return nil, &cri.Error{Class: cri.ErrNotFound, Err: errors.New("no container " + r.ContainerId)}
}

// A client without gRPC: the runtime is a value of the program.
func ExampleNew() {
	ctx, client := context.Background(), cri.New(local{}, nil)
	listed, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	fmt.Println(len(listed.GetItems()), err)
	_, err = client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: "c0"})
	fmt.Println(errors.Is(cri.Classify(err), cri.ErrNotFound))
	// Output:
	// 1 <nil>
	// true
}
