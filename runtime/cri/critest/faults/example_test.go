package faults_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// The first pull of an image fails, the second succeeds.
func Example() {
	rt, err := critest.New(critest.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	conn, err := rt.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fault, err := rt.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Err: status.Error(codes.Unavailable, "no route to host")})
	if err != nil {
		log.Fatal(err)
	}
	images := runtimeapi.NewImageServiceClient(conn)
	for range 2 {
		_, err := images.PullImage(context.Background(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "app:1"}})
		fmt.Println(status.Code(err))
	}
	fmt.Println(fault.Hits(), "hit")
	// Output:
	// Unavailable
	// OK
	// 1 hit
}
