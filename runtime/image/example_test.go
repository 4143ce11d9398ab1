package image_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/image"
)

func Example() {
	runtime, err := critest.New(critest.Config{}) // or any runtime, through cri.Dial
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()
	conn, err := runtime.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	images, err := image.New(image.Config{Runtime: runtimeapi.NewImageServiceClient(conn)})
	if err != nil {
		log.Fatal(err)
	}
	img, err := images.EnsureImage(context.Background(), image.Request{Image: "nginx:1.29", PodUID: "uid"})
	if err != nil {
		log.Fatal(err)
	}
	defer img.Release() // when the container is listed
	fmt.Println("pulled:", img.Pulled)

	_, err = images.EnsureImage(context.Background(), image.Request{Image: "redis:8", Policy: v1.PullNever})
	var why *image.Error
	if errors.As(err, &why) {
		fmt.Println(why.Reason)
	}
	// Output:
	// pulled: true
	// ErrImageNeverPull
}
