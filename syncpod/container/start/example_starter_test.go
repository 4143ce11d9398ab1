package start_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/podspec"
)

// present has all images.
type present struct{}

func (present) EnsureImageExists(_ context.Context, req image.Request) (*image.Image, error) {
	return &image.Image{ID: "sha256:" + req.Image}, nil
}

// client prints its calls. It embeds the interface, so that it needs only the methods that are called.
type client struct{ start.StarterRuntime }

func (client) CreateContainer(_ context.Context, in *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	fmt.Println("create", in.Config.Metadata.Name, in.Config.Image.Image, in.Config.Envs[0].Key)
	return &runtimeapi.CreateContainerResponse{ContainerId: "c0"}, nil
}

func (client) StartContainer(_ context.Context, in *runtimeapi.StartContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	fmt.Println("start", in.ContainerId)
	return &runtimeapi.StartContainerResponse{}, nil
}

// noLogs has no logs.
type noLogs struct{}

func (noLogs) MakeDirectory(string, string) error               { return nil }
func (noLogs) LastAttempt(string, string) (uint32, bool, error) { return 0, false, nil }

// A container is started in a sandbox that exists.
func ExampleStarter() {
	starter, err := start.NewStarter(start.StarterConfig{
		Images: present{}, Runtime: client{}, RuntimeName: "containerd", Logs: noLogs{}, Node: container.Node{MemoryBytes: 8 << 30},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := podspec.Default(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "nginx:1.29", Env: []v1.EnvVar{{Name: "MODE", Value: "fast"}}}}},
	})
	config, err := sandbox.GeneratePodSandboxConfig(sandbox.Input{Pod: pod})
	if err != nil {
		fmt.Println(err)
		return
	}
	steps := []actions.StartStep{{Container: actions.ContainerRef{Kind: actions.RegularContainer, Name: "app"}}}
	for started := range starter.StartAll(context.Background(), start.Pod{Spec: pod, Sandbox: start.Sandbox{ID: "s0", Config: config}}, steps) {
		fmt.Println(started.Container.Name, started.ID, started.Err)
	}
	// Output:
	// create app sha256:nginx:1.29 MODE
	// start c0
	// app containerd://c0 <nil>
}
