package memory_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
)

// A container that exits again and again waits longer each time.
func ExampleCrashes() {
	pod := memory.New(&memory.Limits{})
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	container := &v1.Container{Name: "app"}
	for attempt := range uint32(3) {
		exited := &runtime.ContainerStatus{Name: "app", Attempt: attempt, ID: runtime.ContainerID{Type: "containerd", ID: fmt.Sprint(attempt)},
			State: runtime.ContainerExited, FinishedAt: now}
		until, wait := pod.Crashes.Crashed(container, exited, now)
		if wait {
			fmt.Println("restart", attempt, "waits", until.Sub(now))
		}
		now = now.Add(time.Minute)
	}
	// Output:
	// restart 1 waits 10s
	// restart 2 waits 20s
}
