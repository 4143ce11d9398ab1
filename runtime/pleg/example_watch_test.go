package pleg_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/pleg"
	podreader "github.com/podsync/podsync/runtime/reader"
)

// A sandbox is created in the runtime, and the Watcher reports it. In an agent, cri.Dial returns the client.
func Example() {
	rt, err := critest.New(critest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	conn, err := rt.Dial()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)

	reader, err := podreader.New(podreader.Config{Runtime: client, RuntimeName: "critest"})
	if err != nil {
		fmt.Println(err)
		return
	}
	changed := make(chan *runtime.PodStatus, 1)
	watcher, err := pleg.New(pleg.Config{
		Reader: reader, Events: client,
		Changed: func(_ types.UID, status *runtime.PodStatus) { changed <- status },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- watcher.Run(ctx) }()

	before, err := watcher.GetNewerThan(ctx, "1", time.Time{})
	fmt.Println("before:", len(before.Sandboxes), "sandboxes", err)
	_, err = client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"},
		Labels:   cri.Owner{}.Mark(map[string]string{runtime.LabelPodUID: "1"}),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	status := <-changed
	fmt.Println("changed:", status.Name, status.Sandboxes[0].State)
	fmt.Println("health:", watcher.Health())
	cancel()
	fmt.Println(<-ended)
	// Output:
	// before: 0 sandboxes <nil>
	// changed: web ready
	// health: ok
	// context canceled
}
