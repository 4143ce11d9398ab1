package gc_test

import (
	"fmt"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/gc"
)

func ExampleDecide() {
	status := &runtime.PodStatus{UID: "8c1f"}
	for attempt := range uint32(4) {
		status.Containers = append(status.Containers, runtime.ContainerStatus{
			ID: runtime.ContainerID{Type: "containerd", ID: fmt.Sprintf("app-%d", attempt)}, Name: "app",
			Attempt: attempt, State: runtime.ContainerExited, ExitCode: 1,
		})
	}
	for _, id := range gc.Decide(status).Containers {
		fmt.Println(id)
	}
	// Output:
	// containerd://app-1
	// containerd://app-0
}
