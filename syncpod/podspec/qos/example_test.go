package qos_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/podspec/qos"
)

func ExampleFromSpec() {
	list := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	class := func(r v1.ResourceRequirements) v1.PodQOSClass {
		return qos.FromSpec(&v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: r}}})
	}
	fmt.Println(class(v1.ResourceRequirements{}))
	fmt.Println(class(v1.ResourceRequirements{Requests: list("100m", "64Mi")}))
	fmt.Println(class(v1.ResourceRequirements{Requests: list("1", "64Mi"), Limits: list("1000m", "64Mi")}))
	// Output:
	// BestEffort
	// Burstable
	// Guaranteed
}
