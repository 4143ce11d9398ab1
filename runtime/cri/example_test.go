package cri_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// An agent connects to a runtime, creates a sandbox and lists its own sandboxes.
func Example() {
	ctx := context.Background()
	endpoint, stop := serve()
	defer stop()

	client, err := cri.Dial(ctx, cri.Config{Endpoint: endpoint}) // unix:///run/containerd/containerd.sock
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	owner := cri.Owner{Name: "example"}
	_, err = client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid"},
		Labels:   owner.Mark(map[string]string{"io.kubernetes.pod.uid": "uid"}),
	}})
	if err != nil {
		log.Fatal(err)
	}

	listed, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: owner.Selector()}})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range listed.GetItems() {
		fmt.Println(s.GetMetadata().GetName(), owner.Owns(s.GetLabels()))
	}

	_, err = client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: "unknown"})
	fmt.Println(errors.Is(cri.Classify(err), cri.ErrNotFound))
	// Output:
	// web true
	// true
}

// serve starts an in-memory runtime.
func serve() (endpoint string, stop func()) {
	runtime, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		log.Fatal(err)
	}
	endpoint, err = runtime.Listen(filepath.Join(dir, "sock"))
	if err != nil {
		log.Fatal(err)
	}
	return endpoint, func() {
		runtime.Close()
		os.RemoveAll(dir)
	}
}
