package admission_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/modules/cluster/admission"
)

// registered is a Node object that the API server has. A node agent uses a *node.Node.
type registered v1.Node

func (r *registered) IsRegistered() bool { return true }
func (r *registered) Object() *v1.Node   { return (*v1.Node)(r) }
func (r *registered) Newest() *v1.Node   { return (*v1.Node)(r) }

// A pod that requests two CPUs does not fit on a node with one.
func ExampleAdmission_Admit() {
	node := &registered{}
	node.Name = "edge-7"
	a := &admission.Admission{
		Node: node, NodeName: "edge-7",
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourcePods: resource.MustParse("110")},
	}
	pod := &v1.Pod{Spec: v1.PodSpec{NodeName: "edge-7", Containers: []v1.Container{{
		Name: "app", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}},
	}}}}

	rejected := a.Admit(pod, nil)
	fmt.Println(rejected.Reason)
	fmt.Println(rejected.Message)
	// Output:
	// OutOfcpu
	// Node didn't have enough resource: cpu, requested: 2000, used: 0, capacity: 1000
}
