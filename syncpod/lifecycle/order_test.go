package lifecycle

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// I5: sidecars stop after all other containers, the last one of the spec first (KEP-753).
func TestTargets(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	sidecar := func(name string) v1.Container { return v1.Container{Name: name, RestartPolicy: &always} }
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers:      []v1.Container{sidecar("s0"), {Name: "init"}, sidecar("s2")},
		Containers:          []v1.Container{sidecar("a"), {Name: "b"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(sidecar("debug"))}},
	}}
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want []string
	}{
		"spec": {pod, []string{
			"s0 in spec after [init s2 a debug left]", "init in spec after []", "s2 in spec after [init a debug left]",
			"a in spec after []", "debug in spec after []", "left after []",
		}},
		"no spec": {nil, []string{"s0 after []", "init after []", "s2 after []", "a after []", "debug after []", "left after []"}},
	} {
		status := &runtime.PodStatus{}
		for _, name := range []string{"s0", "init", "s2", "a", "b", "debug", "left"} {
			c := runtime.ContainerStatus{Name: name, State: runtime.ContainerRunning}
			switch name {
			case "b":
				c.State = runtime.ContainerExited
			case "init":
				c.State = runtime.ContainerCreated
			case "left":
				c.State = runtime.ContainerUnknown
			}
			status.Containers = append(status.Containers, c)
		}
		var got []string
		all := targets(tc.pod, status)
		for _, target := range all {
			line := target.status.Name
			if target.ref != nil {
				line += " in spec"
				if target.ref.Name != target.status.Name {
					t.Errorf("%s: %s is %v in the spec", name, target.status.Name, target.ref)
				}
			}
			after := []string{}
			for _, i := range target.after {
				after = append(after, all[i].status.Name)
			}
			got = append(got, fmt.Sprintf("%s after %v", line, after))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
