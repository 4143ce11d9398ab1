package journal_test

import (
	"context"
	"fmt"
	"log"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// An agent has made several calls; only one of them changed something.
func Example() {
	rt, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	conn, err := rt.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = conn.Close() }()

	ctx, images := context.Background(), runtimeapi.NewImageServiceClient(conn)
	for _, name := range []string{"nginx:1", "nginx:1"} {
		status, err := images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil {
			log.Fatal(err)
		}
		if status.GetImage() != nil {
			continue
		}
		if _, err := images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}}); err != nil {
			log.Fatal(err)
		}
	}
	calls := rt.Journal()
	fmt.Println(calls.Sequence())
	fmt.Println(calls.Changes().Sequence(), calls.Count(critest.ImageStatus))
	// Output:
	// [ImageStatus nginx:1 PullImage nginx:1 ImageStatus nginx:1]
	// [PullImage nginx:1] 2
}
