package numamemory_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/topology"
)

// Two of three containers fit on one NUMA node each; the third one finds no room.
func Example() {
	const gi = 1 << 30
	reserved := map[v1.ResourceName]uint64{v1.ResourceMemory: gi}
	state, err := numamemory.New(numamemory.Config{Policy: numamemory.PolicyStatic, Nodes: []numamemory.Node{
		{ID: 0, Memory: 8 * gi, Reserved: reserved}, {ID: 1, Memory: 8 * gi},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	policy, err := topology.New(topology.Config{Policy: topology.PolicySingleNUMANode}, topology.Machine{Nodes: 0b11})
	if err != nil {
		fmt.Println(err)
		return
	}
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("6Gi")}
	for _, uid := range []types.UID{"a", "b", "c"} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}}
		pod.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}
		memory := &numamemory.Admission{State: state}
		if _, refusal := policy.Admit(pod, memory); refusal != nil {
			fmt.Println(uid, refusal.Reason)
			continue
		}
		state = memory.State
		fmt.Println(uid, "nodes", state.Container(pod.UID, "app")[0].Nodes)
	}
	// Output:
	// a nodes 0
	// b nodes 1
	// c UnexpectedAdmissionError
}
