package eviction

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
)

// systemCritical is the least priority of a critical pod.
const systemCritical = 2_000_000_000

// asking returns a pod of the class in the first letter of its name: best effort, burstable or guaranteed.
func asking(name, requests string, priority int32) *v1.Pod {
	limits := ""
	if strings.HasPrefix(name, "g") {
		limits = requests
	}
	return podtest.Pod(name, podtest.Priority(priority), podtest.Container("app", podtest.Requests(requests), podtest.Limits(limits)))
}

func TestPreempt(t *testing.T) {
	static := asking("static", "cpu=9", 0)
	static.Spec.Priority, static.Annotations = nil, map[string]string{runtime.AnnotationConfigSource: "file"}
	best := func(name string) *v1.Pod { return asking(name, "", 0) }
	for _, tc := range []struct {
		name     string
		priority int32
		others   []*v1.Pod
		missing  string
		want     string
		not      bool
	}{
		{"nothing is missing", systemCritical, []*v1.Pod{best("b1")}, "", "", false},
		{"a pod that is not critical", systemCritical - 1, []*v1.Pod{asking("u1", "cpu=9", 0)}, "cpu=1", "", true},
		{"all together are not enough", systemCritical, []*v1.Pod{asking("u1", "cpu=1", 0), asking("u2", "cpu=1", 0)}, "cpu=3", "", true},
		{"of two the one that is enough", systemCritical, []*v1.Pod{asking("u1", "cpu=1", 0), asking("u3", "cpu=3", 0)}, "cpu=2", "u3", false},
		{"of two that are enough the smaller", systemCritical, []*v1.Pod{asking("u3", "cpu=3", 0), asking("u2", "cpu=2", 0)}, "cpu=2", "u2", false},
		{"less memory counts before less CPU", systemCritical, []*v1.Pod{asking("u1", "cpu=2 memory=2Gi", 0), asking("u2", "cpu=3 memory=1Gi", 0)}, "cpu=2", "u2", false},
		{"pods that request nothing free only their place", systemCritical, []*v1.Pod{best("b1"), asking("u1", "cpu=1", 0)}, "pods=1", "b1", false},
		{"no guaranteed pod, if burstable ones are enough", systemCritical, []*v1.Pod{asking("g4", "cpu=4 memory=1Gi", 0), asking("u1", "cpu=1", 0), asking("u3", "cpu=3", 0)}, "cpu=4", "u3 u1", false},
		{"no more burstable pods than the guaranteed ones leave over", systemCritical, []*v1.Pod{asking("g4", "cpu=4 memory=1Gi", 0), asking("u1", "cpu=1", 0), asking("u2", "cpu=2", 0)}, "cpu=5", "u1 g4", false},
		{"a pod that frees a part of each resource", systemCritical, []*v1.Pod{asking("u1", "cpu=2", 0), asking("u2", "cpu=1 memory=1Gi", 0)}, "cpu=1 memory=1Gi", "u2", false},
		{"static and critical pods stay", systemCritical, []*v1.Pod{static, asking("u1", "cpu=9", systemCritical)}, "cpu=1", "", true},
		{"critical pods of a lower priority do not", systemCritical + 1000, []*v1.Pod{asking("u1", "cpu=9", systemCritical)}, "cpu=1", "u1", false},
		{"thousandths of a CPU", systemCritical, []*v1.Pod{asking("u1", "cpu=400m", 0), asking("u2", "cpu=500m", 0)}, "cpu=450m", "u2", false},
	} {
		stop, ok := Preempt(asking("critical", "", tc.priority), tc.others, podtest.Resources(tc.missing))
		if got := namesOf(stop); got != tc.want || ok == tc.not {
			t.Errorf("%s: %q, %v; want %q, %v", tc.name, got, ok, tc.want, !tc.not)
		}
	}
}

func namesOf(pods []*v1.Pod) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// A static pod without a priority is critical, and preempts other pods.
func TestPreemptForStaticPod(t *testing.T) {
	static := asking("static", "", 0)
	static.Spec.Priority, static.Annotations = nil, map[string]string{runtime.AnnotationConfigSource: "file"}
	if stop, ok := Preempt(static, []*v1.Pod{asking("u1", "cpu=1", 0)}, podtest.Resources("cpu=1")); namesOf(stop) != "u1" || !ok {
		t.Errorf("%q, %v; want u1", namesOf(stop), ok)
	}
}

// For any requests: the stopped pods free the missing resources, each of them is needed in its QoS class, and if all
// together do not suffice, none is stopped.
func TestPreemptFreesEnough(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var others []*v1.Pod
		for i := range random.IntN(8) {
			requests := fmt.Sprintf("cpu=%dm memory=%d", random.IntN(2000), random.IntN(2000))
			if random.IntN(10) == 0 {
				requests = fmt.Sprintf("cpu=%dm memory=%d", int64(math.MaxInt64), int64(math.MaxInt64))
			}
			others = append(others, asking(string("bug"[random.IntN(3)])+fmt.Sprint(i), requests, int32(random.IntN(2))*systemCritical))
		}
		missing := podtest.Resources(fmt.Sprintf("cpu=%dm memory=%d pods=%d", random.IntN(4000), random.IntN(4000), random.IntN(3)))
		given := namesOf(others)
		stop, ok := Preempt(asking("critical", "", systemCritical), others, missing)
		if namesOf(others) != given {
			t.Fatalf("the order of the pods was changed from %q to %q", given, namesOf(others))
		}
		possible := slices.DeleteFunc(slices.Clone(others), runtime.IsCritical)
		need := shortageOf(missing)
		switch {
		case ok != (len(need.without(possible)) == 0):
			t.Fatalf("ok is %v, but all pods leave %v of %v", ok, need.without(possible), need)
		case ok && len(need.without(stop)) > 0:
			t.Fatalf("the end of %q leaves %v of %v", namesOf(stop), need.without(stop), need)
		case slices.ContainsFunc(stop, runtime.IsCritical):
			t.Fatalf("%q stop, one of them critical", namesOf(stop))
		}
	}
}
