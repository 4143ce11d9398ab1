package resources_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/podspec/resources"
)

func requesting(cpu string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return pod
}

// A node of two CPUs has no room for a second pod that requests more than half of them.
func ExampleFind() {
	shortage, short := resources.Find(requesting("1200m"), []*v1.Pod{requesting("1")}, v1.ResourceCPU, resource.MustParse("2"))
	fmt.Println(short, shortage.Message())
	// Output: true Node didn't have enough resource: cpu, requested: 1200, used: 1000, capacity: 2000
}
