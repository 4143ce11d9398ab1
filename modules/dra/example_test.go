package dra_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/modules/dra"
	"github.com/podsync/podsync/modules/dra/dratest"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// card returns a claim that is allocated, and reserved for a pod. Without an API server the program decides both.
func card(pod *v1.Pod) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	c.Namespace, c.Name, c.UID = pod.Namespace, "card", "card-uid"
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node", Device: "dev"}},
	}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	return c
}

// An agent whose pods use the devices of a driver. The runtime and the driver are in memory, so that the example runs anywhere; the
// code for real ones is the same.
func ExampleManager() {
	dir, err := os.MkdirTemp("", "dra")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	driver := &dratest.Driver{Name: "gpu.example.com"}
	if err := driver.Start(dir); err != nil {
		log.Fatal(err)
	}
	defer driver.Stop()
	node, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := node.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "render", "1"
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("card")}}
	pod.Spec.Containers = []v1.Container{{
		Name: "app", Image: "registry.test/render:1", Command: []string{"sleep", "600"},
		Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "gpu"}}},
	}}
	// On a node the root is often /var/lib/kubelet, where drivers expect it.
	manager, err := dra.New(dra.Config{State: filepath.Join(dir, "dra"), Root: dir, Claims: dra.StaticClaims{card(pod)}})
	if err != nil {
		log.Fatal(err)
	}
	statuses := make(chan v1.PodStatus, 100)
	pods := source.NewPush()
	agent, err := agent.New(agent.Config{
		Client: cri.NewClient(conn), Root: filepath.Join(dir, "root"), Sources: []source.Source{pods},
		NoEviction: true, // pods in memory do not fill the disk of the test machine
		Sync: syncpod.Config{
			RuntimeName: "critest", // cri.Dial would ask the runtime
			Extensions:  syncpod.Extensions{Devices: manager},
			Node:        syncpod.Node{LogsRoot: filepath.Join(dir, "logs")},
			Sink: syncpod.StatusSinkFunc(func(_ context.Context, _ *v1.Pod, s v1.PodStatus) error {
				statuses <- s
				return nil
			}),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	running.Go(func() {
		if err := manager.Run(ctx); err != nil {
			log.Print(err)
		}
	})
	running.Go(func() { _ = agent.Run(ctx) })
	if err := pods.Set(pod); err != nil {
		log.Fatal(err)
	}
	for s := range statuses {
		if s.Phase == v1.PodRunning {
			given := s.ContainerStatuses[0].AllocatedResourcesStatus[0]
			fmt.Println(s.Phase, "with", given.Name, given.Resources[0].ResourceID)
			break
		}
	}
	for _, call := range node.Journal().Of(critest.CreateContainer) {
		fmt.Println(call.Request().(*runtimeapi.CreateContainerRequest).Config.CDIDevices[0].Name)
	}
	// Output:
	// Running with claim:gpu gpu.example.com/node/dev
	// gpu.example.com/device=card-uid
}
