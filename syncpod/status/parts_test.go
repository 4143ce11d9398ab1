package status_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apistatus "github.com/podsync/podsync/syncpod/status"
)

func runs(name string, started bool) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, Ready: started, Started: &started, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func ended(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, Ready: code == 0, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}
}

func TestPhaseFromContainerStatuses(t *testing.T) {
	always, never := v1.RestartPolicyAlways, v1.RestartPolicyNever
	for name, tt := range map[string]struct {
		policy   v1.RestartPolicy
		sidecar  bool
		init     []v1.ContainerStatus
		app      []v1.ContainerStatus
		terminal bool
		want     v1.PodPhase
	}{
		"nothing known":               {policy: always, want: v1.PodPending},
		"init runs":                   {policy: always, init: []v1.ContainerStatus{runs("setup", true)}, want: v1.PodPending},
		"init failed":                 {policy: never, init: []v1.ContainerStatus{ended("setup", 1)}, want: v1.PodFailed},
		"init failed, restarts":       {policy: always, init: []v1.ContainerStatus{ended("setup", 1)}, want: v1.PodPending},
		"one of two":                  {policy: always, init: []v1.ContainerStatus{ended("setup", 0)}, app: []v1.ContainerStatus{runs("b", true)}, want: v1.PodPending},
		"both run":                    {policy: always, init: []v1.ContainerStatus{ended("setup", 0)}, app: []v1.ContainerStatus{runs("b", true), runs("a", true)}, want: v1.PodRunning},
		"a sidecar that starts":       {policy: always, sidecar: true, init: []v1.ContainerStatus{runs("setup", false)}, want: v1.PodPending},
		"both exited":                 {policy: never, init: []v1.ContainerStatus{ended("setup", 0)}, app: []v1.ContainerStatus{ended("a", 0), ended("b", 0)}, want: v1.PodSucceeded},
		"both exited, restart":        {policy: always, init: []v1.ContainerStatus{ended("setup", 0)}, app: []v1.ContainerStatus{ended("a", 0), ended("b", 0)}, want: v1.PodRunning},
		"both exited, stopped":        {policy: always, init: []v1.ContainerStatus{ended("setup", 0)}, app: []v1.ContainerStatus{ended("a", 0), ended("b", 0)}, terminal: true, want: v1.PodSucceeded},
		"one failed, stopped":         {policy: always, init: []v1.ContainerStatus{ended("setup", 0)}, app: []v1.ContainerStatus{ended("a", 0), ended("b", 2)}, terminal: true, want: v1.PodFailed},
		"a container of another spec": {policy: always, app: []v1.ContainerStatus{runs("x", true)}, want: v1.PodPending},
	} {
		pod := pod(tt.policy, "a", "b")
		pod.Spec.InitContainers = []v1.Container{{Name: "setup"}}
		if tt.sidecar {
			pod.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		s := v1.PodStatus{InitContainerStatuses: tt.init, ContainerStatuses: tt.app}
		before := s.DeepCopy()
		if got := apistatus.Phase(pod, s, tt.terminal); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if !reflect.DeepEqual(&s, before) {
			t.Errorf("%s: the status was modified", name)
		}
	}
	if got := apistatus.Phase(nil, v1.PodStatus{}, false); got != "" {
		t.Errorf("no pod: %s", got)
	}
}

func TestReadyConditions(t *testing.T) {
	gated := pod(v1.RestartPolicyAlways, "a")
	gated.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/ready"}}
	gated.Spec.InitContainers = []v1.Container{{Name: "setup"}}
	now, earlier := time.Unix(1000, 0), metav1.NewTime(time.Unix(10, 0))
	in := apistatus.ConditionsInput{Pod: gated, Now: now, Previous: []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: earlier}},
		Status: v1.PodStatus{Phase: v1.PodRunning, InitContainerStatuses: []v1.ContainerStatus{ended("setup", 0)}, ContainerStatuses: []v1.ContainerStatus{runs("a", true)}}}
	check := func(name string, want ...v1.ConditionStatus) []v1.PodCondition {
		t.Helper()
		got := apistatus.ReadyConditions(in)
		for i, kind := range []v1.PodConditionType{v1.PodInitialized, v1.PodReady, v1.ContainersReady} {
			if got[i].Type != kind || got[i].Status != want[i] {
				t.Errorf("%s: %s is %s, want %s of %s", name, got[i].Type, got[i].Status, want[i], kind)
			}
		}
		return got
	}
	got := check("a closed gate", v1.ConditionTrue, v1.ConditionFalse, v1.ConditionTrue)
	if got[0].LastTransitionTime != earlier || !got[1].LastTransitionTime.Time.Equal(now) || got[1].Reason != "ReadinessGatesNotReady" {
		t.Errorf("%+v", got)
	}
	in.Status.Conditions = []v1.PodCondition{{Type: "example.com/ready", Status: v1.ConditionTrue}}
	check("an open gate", v1.ConditionTrue, v1.ConditionTrue, v1.ConditionTrue)
	in.Status.ContainerStatuses = nil
	check("a container without a status", v1.ConditionTrue, v1.ConditionFalse, v1.ConditionFalse)
	in.Status.InitContainerStatuses = nil
	check("no statuses", v1.ConditionFalse, v1.ConditionFalse, v1.ConditionFalse)
	if got := apistatus.ReadyConditions(apistatus.ConditionsInput{}); got != nil {
		t.Errorf("no pod: %v", got)
	}
}

// A program that makes the statuses of containers itself takes the phase and the conditions alone.
func ExamplePhase() {
	started := true
	s := v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{Name: "app", Ready: true, Started: &started, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}}
	web := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "log"}}}}
	s.Phase = apistatus.Phase(web, s, false)
	fmt.Println(s.Phase)
	for _, c := range apistatus.ReadyConditions(apistatus.ConditionsInput{Pod: web, Status: s}) {
		fmt.Println(c.Type, c.Status)
	}
	// Output:
	// Pending
	// Initialized True
	// Ready False
	// ContainersReady False
}
