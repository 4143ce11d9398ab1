package env_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

func TestFieldAndResource(t *testing.T) {
	in := env.Input{
		Pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"b": "2", "a": "1"}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")},
			}}}},
		},
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")},
	}
	if got, err := env.FieldValue(in, &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}); got != "a=\"1\"\nb=\"2\"" || err != nil {
		t.Errorf("labels %q, %v, want %q and no error", got, err, "a=\"1\"\nb=\"2\"")
	}
	for _, tt := range []struct {
		name string
		ref  v1.ResourceFieldSelector
		want string
	}{
		{"", v1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.memory"}, "67108864"},
		{"app", v1.ResourceFieldSelector{Resource: "limits.cpu"}, "4"},
		{"", v1.ResourceFieldSelector{Resource: "limits.cpu"}, ""},
		{"", v1.ResourceFieldSelector{ContainerName: "other", Resource: "limits.cpu"}, ""},
	} {
		in.Container = tt.name
		if got, err := env.ResourceValue(in, &tt.ref); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%+v: %q, %v, want %q", tt.ref, got, err, tt.want)
		}
	}
	_, fieldErr := env.FieldValue(env.Input{}, &v1.ObjectFieldSelector{})
	_, resourceErr := env.ResourceValue(in, nil)
	if fieldErr == nil || resourceErr == nil {
		t.Error("a missing field or resource is no error")
	}
}
