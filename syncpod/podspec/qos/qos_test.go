package qos_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// resources are requests and limits: CPU and memory of each, "" for none.
func resources(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) v1.ResourceRequirements {
	list := func(cpu, memory string) v1.ResourceList {
		l := v1.ResourceList{}
		if cpu != "" {
			l[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	return v1.ResourceRequirements{Requests: list(cpuRequest, memoryRequest), Limits: list(cpuLimit, memoryLimit)}
}

func TestClass(t *testing.T) {
	full, none := resources("1", "1Gi", "1", "1Gi"), v1.ResourceRequirements{}
	other := none
	other.Requests = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
	for name, tc := range map[string]struct {
		containers, inits []v1.ResourceRequirements
		pod               *v1.ResourceRequirements
		recorded, want    v1.PodQOSClass
	}{
		"no container":                 {want: v1.PodQOSBestEffort},
		"nothing asked for":            {containers: []v1.ResourceRequirements{none}, want: v1.PodQOSBestEffort},
		"zero is nothing":              {containers: []v1.ResourceRequirements{resources("0", "0", "0", "0")}, want: v1.PodQOSBestEffort},
		"other resources do not count": {containers: []v1.ResourceRequirements{other}, want: v1.PodQOSBestEffort},
		"all limited":                  {containers: []v1.ResourceRequirements{full, full}, want: v1.PodQOSGuaranteed},
		"one is not limited":           {containers: []v1.ResourceRequirements{full, none}, want: v1.PodQOSBurstable},
		"an init container is not":     {containers: []v1.ResourceRequirements{full}, inits: []v1.ResourceRequirements{none}, want: v1.PodQOSBurstable},
		"request below limit":          {containers: []v1.ResourceRequirements{resources("1", "1Gi", "2", "1Gi")}, want: v1.PodQOSBurstable},
		"limit without a request":      {containers: []v1.ResourceRequirements{resources("", "1Gi", "1", "1Gi")}, want: v1.PodQOSBurstable},
		"one resource alone":           {containers: []v1.ResourceRequirements{resources("1", "", "1", "")}, want: v1.PodQOSBurstable},
		"resources of the pod":         {containers: []v1.ResourceRequirements{none}, pod: &full, want: v1.PodQOSGuaranteed},
		"empty resources of the pod":   {containers: []v1.ResourceRequirements{full}, pod: &none, want: v1.PodQOSGuaranteed},
		"as it was recorded":           {containers: []v1.ResourceRequirements{full}, recorded: v1.PodQOSBestEffort, want: v1.PodQOSBestEffort},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Resources: tc.pod}, Status: v1.PodStatus{QOSClass: tc.recorded}}
		for _, r := range tc.containers {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: r})
		}
		for _, r := range tc.inits {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Resources: r})
		}
		before := pod.DeepCopy()
		if got := qos.Class(pod); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if before.String() != pod.String() {
			t.Errorf("%s: the pod was written to", name)
		}
	}
}
