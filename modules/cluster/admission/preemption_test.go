package admission_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/cluster/admission"
)

// critical returns a pod that requests CPU and has the priority of system-node-critical.
func critical(name, cpu string) *v1.Pod {
	return podOf(func(p *v1.Pod) {
		p.Name, p.UID = name, types.UID(name)
		p.Spec.Priority = new(int32(2_000_001_000))
		asks(cpu)(p)
	})
}

// A critical pod is admitted if the pods that stop for it free enough resources. Pods that stop for another critical pod
// do not count. A pod that is rejected stops no other pod.
func TestPreemption(t *testing.T) {
	preemption := admission.NewPreemption(admission.PreemptionConfig{})
	a := admissionTo(object{})
	a.Preemption = preemption
	one, two := podOf(asks("1")), podOf(asks("1"))
	one.UID, two.UID = "one", "two"
	admit := func(pod *v1.Pod, want string, beside ...*v1.Pod) {
		t.Helper()
		got := ""
		if refused := a.Admit(pod, beside); refused != nil {
			got = refused.Reason
		}
		if got != want {
			t.Errorf("%s is refused for %q, want %q", pod.Name, got, want)
		}
	}
	waits := func(pods ...*v1.Pod) {
		t.Helper()
		for _, pod := range pods {
			if preemption.AdmitPod(t.Context(), pod) == nil {
				t.Errorf("%s does not wait", pod.Name)
			}
		}
	}
	admit(podOf(asks("1")), "OutOfcpu", one, two)
	admit(critical("large", "3"), "OutOfcpu", one, two)
	elsewhere := critical("elsewhere", "1")
	elsewhere.Spec.NodeName = "n2"
	admit(elsewhere, "NodeName", one, two)
	taken := critical("taken", "1")
	port("", 80)(taken)
	used := podOf(port("", 80))
	used.UID = "used"
	admit(taken, "NodePorts", one, two, used)
	if slices.ContainsFunc([]*v1.Pod{elsewhere, taken}, func(p *v1.Pod) bool { return preemption.AdmitPod(t.Context(), p) != nil }) {
		t.Error("pods stop for one that was refused")
	}

	first := critical("first", "1")
	admit(first, "", one, two)
	waits(first)
	second := critical("second", "1")
	admit(second, "", one, two, first) // one of the pods is stopping already
	waits(first, second)
	admit(critical("third", "1"), "OutOfpods", one, two, first, second)
	if fits := podOf(); preemption.AdmitPod(t.Context(), fits) != nil {
		t.Error("a pod waits that needs no room")
	}
}
