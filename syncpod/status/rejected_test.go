package status_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// A pod that admission rejected has no containers, neither in this status nor in later ones. A pod that ended for
// another reason has containers, even if the runtime has no object of it.
func TestW8_RejectedPodHasNoContainers(t *testing.T) {
	rejected := func() *v1.Pod {
		p := pod(v1.RestartPolicyNever, "app", "log")
		p.Spec.InitContainers = []v1.Container{{Name: "init"}}
		p.Status = apistatus.Rejected(p.Status, "OutOfcpu", "Node didn't have enough resource: cpu")
		return p
	}
	p := rejected()
	if s := p.Status; s.Phase != v1.PodFailed || s.Reason != "OutOfcpu" || s.Message != "Pod was rejected: Node didn't have enough resource: cpu" {
		t.Errorf("the rejection is published as %s, %s, %q", s.Phase, s.Reason, s.Message)
	}
	for name, tc := range map[string]struct {
		change     func(*apistatus.Input)
		containers int
	}{
		"rejected":                    {func(*apistatus.Input) {}, 0},
		"stopped":                     {func(in *apistatus.Input) { in.Terminal = true }, 0},
		"the last status":             {func(in *apistatus.Input) { in.Terminal, in.Ended = true, true }, 0},
		"the runtime has a container": {func(in *apistatus.Input) { in.Status = node(running("app", "a0", 0)) }, 3},
		"an empty status":             {func(in *apistatus.Input) { in.Status = &runtime.PodStatus{} }, 0},
		"a container was reported":    {func(in *apistatus.Input) { in.Pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app"}} }, 3},
		"an init container":           {func(in *apistatus.Input) { in.Pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init"}} }, 3},
		"evicted": {func(in *apistatus.Input) {
			in.Pod.Status.Reason, in.Pod.Status.Message = "Evicted", "The node was low on resource: memory."
		}, 3},
		"failed by another component":   {func(in *apistatus.Input) { in.Pod.Status.Reason, in.Pod.Status.Message = "", "" }, 3},
		"succeeded":                     {func(in *apistatus.Input) { in.Pod.Status.Phase = v1.PodSucceeded }, 3},
		"only the message says so":      {func(in *apistatus.Input) { in.Pod.Status.Phase = v1.PodPending }, 3},
		"rejected by a previous status": {func(in *apistatus.Input) { s := in.Pod.Status; in.Previous, in.Pod.Status = &s, v1.PodStatus{} }, 0},
	} {
		in := apistatus.Input{Pod: rejected()}
		tc.change(&in)
		s := apistatus.GeneratePodStatus(in)
		if n := len(s.InitContainerStatuses) + len(s.ContainerStatuses) + len(s.EphemeralContainerStatuses); n != tc.containers {
			t.Errorf("%s: %d containers are reported, want %d", name, n, tc.containers)
		}
	}
}
