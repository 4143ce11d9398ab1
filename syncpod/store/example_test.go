package store_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/store"
)

// The next agent reads the status of a finished pod, and does not run it again.
func ExampleFiles() {
	dir, err := os.MkdirTemp("", "statuses")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	files, err := store.NewFiles(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	finished := store.Status{Namespace: "default", Name: "job", UID: "4f1d", Status: v1.PodStatus{Phase: v1.PodSucceeded}}
	if err := files.SetStatus(ctx, finished); err != nil {
		fmt.Println(err)
	}
	loaded, err := files.Load(ctx)
	fmt.Println(loaded[0].Name, loaded[0].Status.Phase, err)
	// Output: job Succeeded <nil>
}
