package start_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/container/start"
)

// forgetful creates a container, and loses the answer.
type forgetful struct{ created []*runtimeapi.Container }

func (f *forgetful) CreateContainer(_ context.Context, in *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	f.created = append(f.created, &runtimeapi.Container{
		Id: fmt.Sprint("c", len(f.created)), PodSandboxId: in.PodSandboxId, Metadata: in.Config.Metadata, Labels: in.Config.Labels, Annotations: in.Config.Annotations,
	})
	return nil, status.Error(codes.DeadlineExceeded, "the answer is lost")
}

func (f *forgetful) StartContainer(context.Context, *runtimeapi.StartContainerRequest, ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	return &runtimeapi.StartContainerResponse{}, nil
}

func (f *forgetful) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: f.created}, nil
}

func (f *forgetful) Dispose(_ context.Context, id string) error {
	fmt.Println("removed", id)
	f.created = nil
	return nil
}

// attempts prints each noted attempt.
type attempts struct{ refused int }

func (a *attempts) Used(_ context.Context, container string, attempt uint32, _ bool) {
	fmt.Println("attempt", attempt, "of", container, "is given up")
}

func (a *attempts) NameReserved(string) bool {
	a.refused++
	return a.refused == start.NameReservedRetries
}

// The runtime has created the container, and its answer is lost. The container is adopted.
func Example() {
	node := &forgetful{}
	runner, err := start.New(start.Config{Runtime: node, Disposer: node})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	id, err := runner.Create(ctx, start.Request{
		SandboxID: "s0", Attempts: &attempts{},
		Config: &runtimeapi.ContainerConfig{
			Metadata:    &runtimeapi.ContainerMetadata{Name: "app"},
			Labels:      cri.Owner{}.Mark(map[string]string{runtime.LabelPodUID: "u1", runtime.LabelContainerName: "app"}),
			Annotations: map[string]string{runtime.AnnotationHash: "5f1d"},
		},
	})
	fmt.Println(id, err)
	fmt.Println(runner.Start(ctx, id))
	// Output:
	// c0 <nil>
	// <nil>
}
