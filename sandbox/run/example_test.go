package run_test

import (
	"context"
	"fmt"
	"log"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/sandbox/run"
)

func ExampleRunner() {
	ctx := context.Background()
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

	runner, err := run.New(run.Config{Runtime: runtimeapi.NewRuntimeServiceClient(conn)})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		created, err := runner.Create(ctx, podConfig(), "")
		if err != nil {
			log.Fatal(err) // the next Create resolves the unfinished attempt
		}
		fmt.Println("attempt", created.Attempt)
		if err := runner.Remove(ctx, created.ID); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// attempt 0
	// attempt 1
}
