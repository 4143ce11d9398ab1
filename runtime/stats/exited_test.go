package stats_test

import (
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

// Of each container that does not run, the newest started instance is read. Of a running container, no earlier instance is read.
func TestExited(t *testing.T) {
	exited := func(name, id string, attempt uint32) runtime.ContainerStatus {
		return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: id}, Attempt: attempt, State: runtime.ContainerExited, SandboxID: "sand"}
	}
	in := func(c runtime.ContainerStatus, state runtime.ContainerState, sandbox string) runtime.ContainerStatus {
		c.State, c.SandboxID = state, sandbox
		return c
	}
	p := pod()
	p.Containers = []runtime.ContainerStatus{
		exited("app", "app0", 0), in(exited("app", "app1", 1), runtime.ContainerRunning, "sand"), exited("app", "app2", 2),
		exited("loop", "loop1", 1), exited("loop", "loop2", 2), exited("loop", "loop0", 0),
		exited("next", "next0", 0), in(exited("next", "next1", 1), runtime.ContainerCreated, "sand"),
		in(exited("moved", "moved0", 0), runtime.ContainerRunning, "before"), exited("moved", "moved1", 1),
		exited("init", "init0", 0), exited("debug", "debug0", 0), exited("silent", "silent0", 0),
	}
	rt := &statsRuntime{}
	for _, c := range p.Containers {
		if c.Name != "silent" {
			rt.containers = append(rt.containers, &runtimeapi.ContainerStats{
				Attributes: &runtimeapi.ContainerAttributes{Id: c.ID.ID}, WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: value(5)},
			})
		}
	}
	got, err := reader(t, rt, layouts[0].tree()).Read(t.Context(), []*runtime.PodStatus{p})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range got.Pods[0].Exited {
		ids = append(ids, c.ID.ID)
	}
	if want := []string{"loop2", "next0", "moved1", "init0", "debug0"}; !slices.Equal(ids, want) {
		t.Errorf("exited are %q, want %q", ids, want)
	}
}
