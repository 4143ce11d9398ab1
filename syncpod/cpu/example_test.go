package cpu_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/topology"
)

// A Guaranteed pod gets the two threads of one core; other containers run on the rest.
func ExampleAllocator_Allocate() {
	var machine cpu.Topology // on a node: cpu.Read(os.DirFS("/sys"))
	for id := range 8 {
		machine.CPUs = append(machine.CPUs, cpu.CPU{ID: id, Core: id % 4, Node: id % 4 / 2, Socket: id % 4 / 2, Cache: id % 4 / 2})
	}
	a, err := cpu.New(cpu.Config{Topology: machine, Policy: cpu.Static, ReservedCount: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	two := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Requests: two, Limits: two}}}}}
	pod.UID = "1"

	var state cpu.State
	cpus, err := a.Allocate(state, pod, &pod.Spec.Containers[0], topology.Hint{})
	if err != nil {
		fmt.Println(err)
		return
	}
	state = state.With(pod.UID, "app", cpus)
	fmt.Println("app:", cpus)
	fmt.Println("shared:", a.Shared(state))
	// Output:
	// app: 1,5
	// shared: 0,2-4,6-7
}
