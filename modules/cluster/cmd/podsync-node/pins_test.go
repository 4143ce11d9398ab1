package main

import (
	goruntime "runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// With the policy static, a pod gets a CPU of the machine alone, but not the reserved one, and a pod that wants all CPUs is refused.
func TestExclusiveCPUs(t *testing.T) {
	if goruntime.NumCPU() < 2 {
		t.Skip("it needs two CPUs")
	}
	onSite(t, func(s *site) {
		var a *agent
		s.change = func(changed *agent) {
			a = changed
			a.kubelet.CPUManagerPolicy, a.kubelet.ReservedSystemCPUs, a.kubelet.SystemReserved = "static", "0", map[string]string{"cpu": "1"}
		}
		s.boot()
		for name, n := range map[string]int64{"one": 1, "all": 8192} {
			pod := podOf(name, "img")
			pod.Spec.Containers[0].EnvFrom = nil
			list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Mi")}
			pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
			s.create(pod)
		}
		s.sleep(time.Minute)
		one := s.pod("one")
		if cpus := a.pins.CPUs(one.UID, one.Spec.Containers[0].Name); one.Status.Phase != v1.PodRunning || cpus.Len() != 1 || cpus.Has(0) {
			t.Errorf("the pod of one CPU is %s %s %q, with the CPUs %v", one.Status.Phase, one.Status.Reason, one.Status.Message, cpus)
		}
		if got := s.pod("all").Status; got.Phase != v1.PodFailed || got.Reason != "UnexpectedAdmissionError" {
			t.Errorf("the pod of all CPUs is %s %s %q, want Failed UnexpectedAdmissionError", got.Phase, got.Reason, got.Message)
		}
	})
}
