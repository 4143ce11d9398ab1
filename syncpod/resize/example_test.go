package resize_test

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/resize"
)

// May a pod have more CPUs on a node that has four?
func ExampleAllocator() {
	dir, err := os.MkdirTemp("", "allocations")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	allocator, err := resize.New(resize.Config{State: dir, Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	with := func(uid types.UID, cpu string) *v1.Pod {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
		}}}}}
		pod.UID = uid
		return pod
	}
	for _, pod := range []*v1.Pod{with("a", "1"), with("b", "1"), with("b", "3"), with("b", "4"), with("b", "5")} {
		answer, err := allocator.Allocate(context.Background(), pod)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(pod.UID, " has ", answer.Pod.Spec.Containers[0].Resources.Requests.Cpu())
		if answer.Waits != nil {
			fmt.Print(". ", answer.Waits.Outcome, ": ", answer.Waits.Message)
		}
		fmt.Println()
	}
	// Output:
	// a has 1
	// b has 1
	// b has 3
	// b has 3. Deferred: Node didn't have enough resource: cpu, requested: 4000, used: 1000, capacity: 4000
	// b has 3. Infeasible: Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000
}

// The decision alone keeps nothing: the caller has the allocations.
func ExampleDecide() {
	with := func(cpu string) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
		}}}}}
	}
	node := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
	for _, cpu := range []string{"2", "4", "5"} {
		verdict := resize.Decide(resize.Request{Pod: with(cpu), Allocated: with("1"), ActivePods: []*v1.Pod{with("1")}, Allocatable: node})
		fmt.Println(cpu, verdict.Outcome)
	}
	// Output:
	// 2 Accepted
	// 4 Deferred
	// 5 Infeasible
}
