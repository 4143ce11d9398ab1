package resize_test

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/resize"
)

// May a pod have two CPUs more on a node that has four?
func Example() {
	with := func(cpu string) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
		}}}}}
	}
	node := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
	for _, other := range []string{"1", "2"} {
		verdict := resize.Decide(resize.Request{Pod: with("3"), Allocated: with("1"), ActivePods: []*v1.Pod{with(other)}, Allocatable: node})
		fmt.Println(strings.TrimSpace(string(verdict.Outcome) + " " + verdict.Message))
	}
	verdict := resize.Decide(resize.Request{Pod: with("5"), Allocated: with("1"), Allocatable: node})
	fmt.Println(strings.TrimSpace(string(verdict.Outcome) + " " + verdict.Message))
	// Output:
	// Accepted
	// Deferred Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000
	// Infeasible Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000
}
