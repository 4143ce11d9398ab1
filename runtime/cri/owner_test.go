package cri

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime"
)

func TestNoPodCanForgeTheMark(t *testing.T) {
	if len(validation.IsQualifiedName(LabelOwner)) == 0 {
		t.Errorf("the API accepts %q as a pod's label", LabelOwner)
	}
	o := Owner{Name: "me"}
	pods := map[string]string{"a": "b", LabelOwner: "other"}
	before := maps.Clone(pods)
	marked := o.Mark(pods)
	if marked[LabelOwner] != "me" || marked["a"] != "b" || !maps.Equal(pods, before) {
		t.Errorf("marked %v of %v, want %q and %q and %v", marked, pods, "me", "b", before)
	}
	if got := o.Mark(nil); !o.Owns(got) {
		t.Errorf("does not own what it marked: %v", got)
	}
}

func TestOwns(t *testing.T) {
	kubelets := map[string]string{runtime.LabelPodUID: "u"}
	theirs := Owner{Name: "other"}.Mark(kubelets)
	for name, tc := range map[string]struct {
		owner  Owner
		labels map[string]string
		want   bool
	}{
		"kubelet's":           {Owner{}, kubelets, false},
		"kubelet's, adopted":  {Owner{AdoptUnmarked: true}, kubelets, true},
		"crictl's, adopted":   {Owner{AdoptUnmarked: true}, nil, false},
		"another's":           {Owner{}, theirs, false},
		"another's, adopting": {Owner{AdoptUnmarked: true}, theirs, false},
		"own":                 {Owner{}, Owner{}.Mark(nil), true},
	} {
		if got := tc.owner.Owns(tc.labels); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
