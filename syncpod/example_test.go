package syncpod_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
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
	root, err := os.MkdirTemp("", "agent")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	syncer, err := syncpod.New(syncpod.Config{
		Client:      cri.NewClient(conn),
		RuntimeName: "critest", // a client that cri.Dial has made knows it
		Root:        root,
		LogsRoot:    filepath.Join(root, "logs"), // by default /var/log/pods
	})
	if err != nil {
		log.Fatal(err)
	}

	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "0b1c"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{
				{Name: "app", Image: "registry.test/app:1"},
				{Name: "proxy", Image: "registry.test/proxy:1"},
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
	// start container "proxy"
	// ended
}
