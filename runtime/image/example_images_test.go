package image_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
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

	manager, err := image.New(image.Config{Settings: image.Settings{Runtime: runtimeapi.NewImageServiceClient(conn)}})
	if err != nil {
		log.Fatal(err)
	}
	img, err := manager.EnsureImageExists(context.Background(), image.Request{Image: "nginx:1.29", PodUID: "uid"})
	if err != nil {
		log.Fatal(err)
	}
	defer img.Release() // when the container is listed
	fmt.Println("pulled:", img.Pulled)

	_, err = manager.EnsureImageExists(context.Background(), image.Request{Image: "redis:8", Policy: v1.PullNever})
	var why *image.Error
	if errors.As(err, &why) {
		fmt.Println(why.Reason)
	}
	// Output:
	// pulled: true
	// ErrImageNeverPull
}

func ExampleCollector() {
	runtime, err := critest.New(critest.Config{Images: []critest.Image{{Name: "app:v1", ID: "sha256:4f1c", Size: 2 << 20}}})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()
	conn, err := runtime.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := cri.NewClient(conn)
	manager, err := image.New(image.Config{Settings: image.Settings{Runtime: client}})
	if err != nil {
		log.Fatal(err)
	}

	collector, err := image.NewCollector(image.CollectorConfig{
		Runtime: client,
		Leases:  manager.Leases(), // of images that are about to be used
		Policy:  image.GCPolicy{MinAge: time.Nanosecond},
		Statfs: func(string) (image.Disk, error) { // by default, the node's file system is read
			return image.Disk{Capacity: 20 << 20, Available: 3 << 20}, nil
		},
		Log: funcr.New(func(_, line string) { fmt.Println(line) }, funcr.Options{}),
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // every few minutes; in the first pass the image is new
		if err := collector.Collect(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// "level"=0 "msg"="image removed" "image"="docker.io/library/app:v1" "id"="sha256:4f1c" "bytes"=2097152 "reason"="disk full"
}
