package actions_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// The effects of a plan name each container, and a word for an effect can be read back.
func TestEffects(t *testing.T) {
	pod := shop()
	hash := func(state runtime.ContainerState, exit int32) *runtime.PodStatus {
		return &runtime.PodStatus{
			Sandboxes: []runtime.SandboxStatus{{ID: "s", State: runtime.SandboxReady, Network: &runtime.SandboxNetwork{IPs: []string{"10.0.0.1"}}}},
			Containers: []runtime.ContainerStatus{
				{Name: "migrate", ID: runtime.ContainerID{Type: "r", ID: "1"}, State: runtime.ContainerExited, SandboxID: "s"},
				{Name: "app", ID: runtime.ContainerID{Type: "r", ID: "2"}, State: state, ExitCode: exit, SandboxID: "s"},
			},
		}
	}
	running, stopped := hash(runtime.ContainerRunning, 0), hash(runtime.ContainerRunning, 0)
	stopped.Sandboxes[0].State = runtime.SandboxNotReady
	for _, tt := range []struct {
		name string
		in   actions.Input
		want []string
	}{
		{"new", actions.Input{Pod: pod}, []string{"migrate starts", "app waits"}},
		{"stays", actions.Input{Pod: pod, Status: running}, []string{"migrate unchanged", "app unchanged"}},
		{"crashed", actions.Input{Pod: pod, Status: hash(runtime.ContainerExited, 1)}, []string{"migrate unchanged", "app starts"}},
		{"backs off", actions.Input{Pod: pod, Status: hash(runtime.ContainerExited, 1), StartHolds: map[string]actions.Hold{"app": {Reason: actions.CrashBackOff}}}, []string{"migrate unchanged", "app waits"}},
		{"loses its sandbox", actions.Input{Pod: pod, Status: stopped}, []string{"migrate starts", "app restarts"}},
		{"ends", actions.Input{Pod: pod, Status: running, End: actions.PodEvicted}, []string{"migrate unchanged", "app stops"}},
		{"is invalid", actions.Input{}, nil},
	} {
		var got []string
		for _, e := range actions.Effects(tt.in) {
			got = append(got, fmt.Sprintf("%s %v", e.Container.Name, e.Effect))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for e := range actions.Restarts + 1 {
		text, err := e.MarshalText()
		var read actions.Effect
		if err != nil || read.UnmarshalText(text) != nil || read != e {
			t.Errorf("%v was read as %v", e, read)
		}
	}
}
