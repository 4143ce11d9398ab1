package systemd_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/podsync/podsync/modules/systemd"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// On a machine without systemd, DelayShutdown returns an error at once, and the agent decides whether to run without it.
func ExampleSystemd_DelayShutdown() {
	units, err := systemd.New(systemd.Config{Address: "unix:path=/nonexistent/bus", Version: cgroup.V2})
	if err != nil {
		log.Fatal(err)
	}
	defer units.Close()

	err = units.DelayShutdown(context.Background(), systemd.Delay{
		Period: 30 * time.Second,
		Stop:   func(ctx context.Context) {}, // loop.Shutdown stops the pods
	})
	fmt.Println("the machine does not wait for the pods:", err != nil)
	// Output: the machine does not wait for the pods: true
}
