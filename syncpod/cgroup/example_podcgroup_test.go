package cgroup_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// The name of a pod's cgroup, and its settings.
func Example() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "5e1f-02"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")},
			Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")},
		}}}},
	}
	name, err := cgroup.PodName(cgroup.Name{cgroup.DefaultRoot}, qos.Class(pod), pod.UID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name.Path(cgroup.Cgroupfs))
	fmt.Println(name.Path(cgroup.Systemd))
	r, err := cgroup.ResourceConfigForPod(cgroup.Input{Pod: pod})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range cgroup.Settings(r, cgroup.V2, nil, true) {
		fmt.Println(s.File, s.Value)
	}
	// Output:
	// /kubepods/burstable/pod5e1f-02
	// /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5e1f_02.slice
	// cpu.weight 10
	// cpu.max max 100000
	// memory.max 67108864
	// pids.max max
}
