package runtime_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// FindContainer finds containers of each kind by their names, and returns the pod's own.
func TestFind(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "c"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e"}}},
	}}
	own := map[string]*v1.Container{
		"i": &pod.Spec.InitContainers[0], "c": &pod.Spec.Containers[0], "e": (*v1.Container)(&pod.Spec.EphemeralContainers[0].EphemeralContainerCommon),
	}
	for name, want := range own {
		if got, err := runtime.FindContainer(pod, name); err != nil || got != want {
			t.Errorf("%s: %p, %v; want %p", name, got, err, want)
		}
	}
	if c, err := runtime.FindContainer(pod, "x"); err == nil {
		t.Errorf("found %+v, want an error", c)
	}
	if c, err := runtime.FindContainer(nil, "c"); err == nil {
		t.Errorf("found %+v in no pod, want an error", c)
	}
}
