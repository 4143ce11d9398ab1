package reader

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

func TestListedPodChanged(t *testing.T) {
	known := func() *runtime.PodStatus {
		return &runtime.PodStatus{
			Sandboxes:  []runtime.SandboxStatus{{ID: "s", State: runtime.SandboxReady}},
			Containers: []runtime.ContainerStatus{{ID: runtime.ContainerID{ID: "c"}, State: runtime.ContainerUnknown}},
		}
	}
	listed := &ListedPod{
		sandboxes:  []*runtimeapi.PodSandbox{{Id: "s", State: runtimeapi.PodSandboxState_SANDBOX_READY}},
		containers: []*runtimeapi.Container{{Id: "c", State: runtimeapi.ContainerState_CONTAINER_UNKNOWN}},
	}
	if listed.Changed(known()) || !listed.Changed(nil) {
		t.Error("a known list counts as a change, or an unknown one does not")
	}
	for name, change := range map[string]func(*runtime.PodStatus){
		"a sandbox is gone":         func(s *runtime.PodStatus) { s.Sandboxes = append(s.Sandboxes, runtime.SandboxStatus{ID: "old"}) },
		"a sandbox is another":      func(s *runtime.PodStatus) { s.Sandboxes[0].ID = "old" },
		"a sandbox has come up":     func(s *runtime.PodStatus) { s.Sandboxes[0].State = runtime.SandboxNotReady },
		"a container is gone":       func(s *runtime.PodStatus) { s.Containers = append(s.Containers, runtime.ContainerStatus{}) },
		"a container is another":    func(s *runtime.PodStatus) { s.Containers[0].ID.ID = "old" },
		"a container has gone awry": func(s *runtime.PodStatus) { s.Containers[0].State = runtime.ContainerRunning },
	} {
		before := known()
		if change(before); !listed.Changed(before) {
			t.Errorf("%s, and it is not seen", name)
		}
	}
}

// A pod that may be alive must be stopped.
func TestListedPodRunning(t *testing.T) {
	for state, want := range map[runtimeapi.ContainerState]bool{
		runtimeapi.ContainerState_CONTAINER_CREATED: false, runtimeapi.ContainerState_CONTAINER_RUNNING: true,
		runtimeapi.ContainerState_CONTAINER_EXITED: false, runtimeapi.ContainerState_CONTAINER_UNKNOWN: true,
	} {
		if got := (&ListedPod{containers: []*runtimeapi.Container{{State: state}}}).Running(); got != want {
			t.Errorf("%v runs: %v, want %v", state, got, want)
		}
	}
	ready := &ListedPod{sandboxes: []*runtimeapi.PodSandbox{{State: runtimeapi.PodSandboxState_SANDBOX_READY}}}
	if !ready.Running() {
		t.Error("a ready sandbox does not run")
	}
}
