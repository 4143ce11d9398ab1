package runtime_test

import (
	"fmt"

	"github.com/podsync/podsync/runtime"
)

// The clock stepped back an hour between two attempts. The later attempt is the
// current one, whatever its creation time.
func ExamplePodStatus_Latest() {
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{
		{Name: "app", Attempt: 4, State: runtime.ContainerExited},
		{Name: "app", Attempt: 5, State: runtime.ContainerRunning},
		{Name: "proxy", Attempt: 0, State: runtime.ContainerRunning},
	}}
	fmt.Println(status.Latest("app").Attempt, status.Latest("app").State)
	fmt.Println(status.Latest("worker") == nil)
	// Output:
	// 5 running
	// true
}

func ExampleParseContainerID() {
	id, err := runtime.ParseContainerID("containerd://4f1c")
	fmt.Println(id.Type, id.ID, err)
	_, err = runtime.ParseContainerID("4f1c")
	fmt.Println(err)
	// Output:
	// containerd 4f1c <nil>
	// container ID "4f1c": want the form type://id
}
