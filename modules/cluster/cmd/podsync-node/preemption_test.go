package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/record"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A critical pod that does not fit replaces another pod: that pod stops with its own grace period and is reported as
// preempted, and only then the critical pod starts. Other pods are synced meanwhile.
func TestPreemption(t *testing.T) {
	onSite(t, func(s *site) {
		events := make(chan string, 10000)
		s.events = record.FakeRecorder{Events: events}
		s.furnish()
		s.boot()
		s.sleep(time.Minute)
		s.wantRunning("changed", "deleted", "same")
		all := s.parts.node.Object().Status.Allocatable[v1.ResourceCPU]
		asks := func(pod *v1.Pod, cpu resource.Quantity) *v1.Pod {
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: cpu}
			return pod
		}
		deaf := podOf("deaf", "registry.test/app:1")
		deaf.Spec.TerminationGracePeriodSeconds = new(int64(40))
		deaf.Spec.Containers[0].Command = []string{"sh", "-c", "trap '' TERM; sleep infinity & wait"}
		s.create(asks(deaf, all))
		s.sleep(20 * time.Second)
		s.wantRunning("changed", "deaf", "deleted", "same")

		critical := podOf("critical", "registry.test/app:1")
		critical.Spec.Priority = new(int32(2_000_001_000))
		s.create(asks(critical, resource.MustParse("100m")))
		s.sleep(20 * time.Second)
		s.wantRunning("changed", "deaf", "deleted", "same") // the critical pod waits
		if waits := s.pod("critical").Status; waits.Phase != v1.PodPending || waits.Reason != "Preempting" {
			t.Errorf("critical is %s for %q, want it to wait", waits.Phase, waits.Reason)
		}
		s.create(podOf("other", "registry.test/app:1"))
		s.sleep(10 * time.Second)
		s.wantRunning("changed", "deaf", "deleted", "other", "same")
		s.sleep(15 * time.Second)
		s.wantRunning("changed", "critical", "deleted", "other", "same")
		ended := s.pod("deaf").Status
		if ended.Phase != v1.PodFailed || ended.Reason != "Preempting" || ended.Message != "Preempted in order to admit critical pod" {
			t.Errorf("deaf is %s for %q: %q", ended.Phase, ended.Reason, ended.Message)
		}
		if !slices.ContainsFunc(ended.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue }) {
			t.Errorf("conditions %+v, want %s", ended.Conditions, v1.DisruptionTarget)
		}
		if !hasEvent(events, "Warning Preempting Preempted in order to admit critical pod") {
			t.Error("there is no event Preempting")
		}
	})
}

func hasEvent(events chan string, want string) bool {
	for len(events) > 0 {
		if strings.HasPrefix(<-events, want) {
			return true
		}
	}
	return false
}

// The critical pod waits for a pod that the runtime cannot stop for 1.5 times that pod's grace period at most.
func TestPreemptedPodThatDoesNotStop(t *testing.T) {
	onSite(t, func(s *site) {
		s.furnish()
		s.boot()
		s.sleep(time.Minute)
		stuck := podOf("stuck", "registry.test/app:1")
		stuck.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: s.parts.node.Object().Status.Allocatable[v1.ResourceCPU]}
		s.create(stuck)
		s.sleep(20 * time.Second)
		for _, method := range []critest.Method{critest.StopContainer, critest.StopPodSandbox} {
			must.Get(s.rt.Inject(faults.Fault{Match: faults.Match{Method: method, PodUID: "uid-stuck"}, Times: faults.Always, Err: status.Error(codes.Internal, "stuck")}))(s)
		}
		critical := podOf("critical", "registry.test/app:1")
		critical.Spec.Priority = new(int32(2_000_001_000))
		critical.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
		s.create(critical)
		s.sleep(9 * time.Second)
		s.wantRunning("changed", "deleted", "same", "stuck")
		s.sleep(5 * time.Second)
		s.wantRunning("changed", "critical", "deleted", "same", "stuck")
	})
}
