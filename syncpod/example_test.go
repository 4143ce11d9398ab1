package syncpod_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container"
)

// A pod is run, and then ended.
func Example() {
	ctx := context.Background()
	node, err := critest.New(critest.Config{}) // or any runtime, through cri.Dial
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	conn, err := node.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	syncer, err := newSyncer(cri.NewClient(conn))
	if err != nil {
		log.Fatal(err)
	}

	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "0b1c"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{
				{Name: "app", Image: "registry.test/app:1"},
				{Name: "helper", Image: "registry.test/helper:1"},
			},
		},
	}
	for {
		result, err := syncer.SyncPod(ctx, pod, nil)
		if err != nil {
			log.Fatal(err) // an agent would come again, at result.NextTry
		}
		if result.Plan.Quiet() {
			break
		}
		for _, start := range result.Plan.Start {
			fmt.Println("start", start.Container)
		}
	}
	if err := syncer.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod}); err != nil {
		log.Fatal(err)
	}
	if err := syncer.SyncTerminatedPod(ctx, pod, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ended")
	// Output:
	// start container "app"
	// start container "helper"
	// ended
}

// newSyncer puts a Syncer together that does without hooks, events and volumes.
func newSyncer(client *cri.Client) (*syncpod.Syncer, error) {
	const name = "critest" // client.RuntimeName() of a client that was dialled
	statuses, err := cri.NewReader(cri.ReaderConfig{Runtime: client, RuntimeName: name})
	if err != nil {
		return nil, err
	}
	sandboxes, err := sandbox.NewRunner(sandbox.RunnerConfig{
		Runtime:          client,
		MakeLogDirectory: func(string) error { return nil }, // this runtime needs none
	})
	if err != nil {
		return nil, err
	}
	images, err := image.New(image.Config{Runtime: client})
	if err != nil {
		return nil, err
	}
	return syncpod.New(syncpod.Config{
		Runtime: client, RuntimeName: name,
		Statuses: statuses, Sandboxes: sandboxes, Images: images,
		Node: container.Node{MemoryBytes: 8 << 30},
		Status: syncpod.StatusReporterFunc(func(_ context.Context, _ *v1.Pod, _ *runtime.PodStatus, _ []*syncpod.StepError) error {
			return nil // package apistatus makes a v1.PodStatus of it
		}),
	})
}
