package loop

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	apistatus "github.com/podsync/podsync/syncpod/status"
)

// What others write into a status leads to a sync, and is in the pod that is synced: a driver may find its claims only then.
func TestStatusOfOthersMatters(t *testing.T) {
	name := "web-gpu"
	reported := v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}}
	for what, test := range map[string]struct {
		write func(*v1.PodStatus)
		kept  func(v1.PodStatus) bool
	}{
		"the names of claims": {
			func(s *v1.PodStatus) {
				s.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
			},
			func(s v1.PodStatus) bool { return len(s.ResourceClaimStatuses) == 1 },
		},
		"the claim of extended resources": {
			func(s *v1.PodStatus) {
				s.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: name}
			},
			func(s v1.PodStatus) bool { return s.ExtendedResourceClaimStatus != nil },
		},
		"a readiness gate": {
			func(s *v1.PodStatus) {
				s.Conditions = []v1.PodCondition{{Type: "example.com/ready", Status: v1.ConditionTrue}}
			},
			func(s v1.PodStatus) bool { return len(s.Conditions) == 2 },
		},
	} {
		before, after := &v1.Pod{}, &v1.Pod{}
		test.write(&after.Status)
		if !differs(before, after) || !test.kept(apistatus.WithReported(after, &reported).Status) {
			t.Errorf("%s: changed %v, and the pod has %+v", what, differs(before, after), apistatus.WithReported(after, &reported).Status)
		}
		if again := after.DeepCopy(); differs(after, again) {
			t.Errorf("%s: they have changed without a change", what)
		}
	}
	if kept := apistatus.WithReported(&v1.Pod{}, &v1.PodStatus{ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "gpu"}}}); len(kept.Status.ResourceClaimStatuses) != 1 {
		t.Error("claims that were reported are lost")
	}
}
