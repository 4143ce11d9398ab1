package critest

import (
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// BenchmarkPodLife measures a pod of one container from sandbox to removal: five calls.
func BenchmarkPodLife(b *testing.B) {
	_, conn := Start(b, Config{Images: []Image{{Name: "app"}}})
	rt := runtimeapi.NewRuntimeServiceClient(conn)
	ctx := b.Context()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		pod := podConfig(fmt.Sprint(i))
		sandbox, err := rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: pod})
		check(err)
		c, err := rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: sandbox.GetPodSandboxId(), SandboxConfig: pod,
			Config: &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "app"},
			},
		})
		check(err)
		_, err = rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: c.GetContainerId()})
		check(err)
		_, err = rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetContainerId(), Timeout: 30})
		check(err)
		_, err = rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox.GetPodSandboxId()})
		check(err)
	}
}

// BenchmarkListContainers measures a relist on a node of 100 pods.
func BenchmarkListContainers(b *testing.B) {
	r, conn := Start(b, Config{Images: []Image{{Name: "app"}}})
	n := &node{Runtime: r, rt: runtimeapi.NewRuntimeServiceClient(conn)}
	for i := range 100 {
		uid := fmt.Sprint(i)
		sandbox, err := n.trySandbox(b.Context(), uid)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := n.tryContainer(b.Context(), sandbox, uid, 0); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := n.rt.ListContainers(b.Context(), &runtimeapi.ListContainersRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}
