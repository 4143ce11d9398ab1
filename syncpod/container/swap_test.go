package container_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
)

// The node has 8 GiB of memory and 4 GiB of swap.
func TestSwap(t *testing.T) {
	limited := container.Swap{Behavior: container.LimitedSwap, Bytes: 4 << 30}
	for _, tc := range []struct {
		name           string
		swap           container.Swap
		request, limit string
		change         func(*v1.Pod)
		unified        string
		total          int64
	}{
		{"the runtime decides", container.Swap{}, "1Gi", "2Gi", nil, "", 0},
		{"no swap", container.Swap{Behavior: container.NoSwap, Bytes: 4 << 30}, "1Gi", "2Gi", nil, "0", 0},
		{"no swap on version 1", container.Swap{Behavior: container.NoSwap, CgroupV1: true}, "1Gi", "2Gi", nil, "", 2 << 30},
		{"no swap on version 1, without a limit", container.Swap{Behavior: container.NoSwap, CgroupV1: true}, "1Gi", "0", nil, "", 0},
		{"version 1 has no limited swap", container.Swap{Behavior: container.LimitedSwap, Bytes: 4 << 30, CgroupV1: true}, "1Gi", "2Gi", nil, "", 2 << 30},
		{"a share by the request", limited, "1Gi", "2Gi", nil, "536870912", 0},
		{"a share without a limit", limited, "2Gi", "0", nil, "1073741824", 0},
		{"best effort", limited, "0", "0", nil, "0", 0},
		{"guaranteed", limited, "1Gi", "1Gi", func(p *v1.Pod) {
			cpu := resource.MustParse("1")
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU], p.Spec.Containers[0].Resources.Limits[v1.ResourceCPU] = cpu, cpu
		}, "0", 0},
		{"a request that is the limit", limited, "1Gi", "1Gi", nil, "0", 0},
		{"a limit without a request", limited, "0", "1Gi", nil, "0", 0},
		{"more than the node has", limited, "9Gi", "10Gi", nil, "0", 0},
		{"a critical pod", limited, "1Gi", "2Gi", func(p *v1.Pod) { p.Spec.Priority = new(int32(2_000_000_000)) }, "0", 0},
		{"a static pod", limited, "1Gi", "2Gi", func(p *v1.Pod) { p.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"} }, "0", 0},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}}}}}
		for list, amount := range map[*v1.ResourceList]string{&pod.Spec.Containers[0].Resources.Requests: tc.request, &pod.Spec.Containers[0].Resources.Limits: tc.limit} {
			if amount != "0" {
				(*list)[v1.ResourceMemory] = resource.MustParse(amount)
			}
		}
		if tc.change != nil {
			tc.change(pod)
		}
		config := must.Get(container.GenerateContainerConfig(container.Input{Pod: pod, Name: "app", Node: container.Node{MemoryBytes: 8 << 30, Swap: tc.swap, GroupOOMKill: !tc.swap.CgroupV1}}))(t)
		r := config.Linux.Resources
		if r.Unified["memory.swap.max"] != tc.unified || r.MemorySwapLimitInBytes != tc.total {
			t.Errorf("%s: memory.swap.max %q, memory and swap %d; want %q, %d", tc.name, r.Unified["memory.swap.max"], r.MemorySwapLimitInBytes, tc.unified, tc.total)
		}
		if !tc.swap.CgroupV1 && r.Unified["memory.oom.group"] != "1" {
			t.Errorf("%s: the OOM group is lost: %v", tc.name, r.Unified)
		}
	}
}
