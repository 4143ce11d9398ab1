package reader_test

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/reader"
)

// A runtime answer becomes a status that package actions decides on.
func ExampleContainerStatus() {
	status := reader.ContainerStatus(&runtimeapi.ContainerStatus{
		Id:       "4f1d",
		Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 2},
		State:    runtimeapi.ContainerState_CONTAINER_EXITED,
		ExitCode: 3,
		Labels:   map[string]string{runtime.LabelContainerName: "app"},
	}, "containerd", "9c2e")
	fmt.Println(status.ID, status.Name, status.Attempt, status.State, status.ExitCode)
	// Output: containerd://4f1d app 2 exited 3
}
