package eviction_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/eviction"
)

// Which pod is evicted on a node with 50Mi of available memory?
func ExampleDecide() {
	rules, err := eviction.ParsePolicy(eviction.Policy{}) // a kubelet's defaults
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := func(name, request string, uses uint64) eviction.Candidate {
		p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)},
		}}}}}
		p.Namespace, p.Name = "default", name
		return eviction.Candidate{Pod: p, Usage: &eviction.Usage{MemoryBytes: &uses}}
	}
	now := time.Now()
	decision := eviction.Decide(rules, eviction.State{
		Readings: []eviction.Reading{{Signal: eviction.MemoryAvailable, Available: 50 << 20, Capacity: 4 << 30, Time: now}},
		Pods:     []eviction.Candidate{pod("within", "1Gi", 900<<20), pod("beyond", "100Mi", 800<<20)},
	}, now)
	for _, met := range decision.Met {
		fmt.Println(met)
	}
	for _, e := range decision.Evict {
		fmt.Println(e.Pod.Name, e.Message)
	}
	// Output:
	// met: memory.available<100Mi: 50Mi available
	// beyond The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.
}
