package resources_test

import (
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/podspec/resources"
)

func asks(cpu, overhead string) *v1.Pod {
	list := func(q string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(q)} }
	return &v1.Pod{Spec: v1.PodSpec{
		Overhead:   list(overhead),
		Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Requests: list(cpu)}}},
	}}
}

func TestFind(t *testing.T) {
	others := []*v1.Pod{asks("1", "100m"), asks("500m", "0")}
	if s, short := resources.Find(asks("300m", "100m"), others, v1.ResourceCPU, resource.MustParse("2")); short {
		t.Errorf("%+v, want no shortage: all fits exactly", s)
	}
	s, short := resources.Find(asks("301m", "100m"), others, v1.ResourceCPU, resource.MustParse("2"))
	if missing := s.Missing(); !short || missing.MilliValue() != 1 {
		t.Errorf("%s is missing, %t, want 1m", missing.String(), short)
	}
	if want := "Node didn't have enough resource: cpu, requested: 401, used: 1600, capacity: 2000"; s.Message() != want {
		t.Errorf("%q, want %q", s.Message(), want)
	}
	if s, short := resources.Find(asks("1", "0"), others, v1.ResourceMemory, resource.MustParse("0")); short {
		t.Errorf("%+v, want no shortage of a resource that no pod requests", s)
	}
}

func TestCountSaturates(t *testing.T) {
	for _, text := range []string{"1e18", "9e30"} {
		if n := resources.Count(v1.ResourceCPU, resource.MustParse(text)); n != math.MaxInt64 {
			t.Errorf("%s counts as %d, want %d", text, n, int64(math.MaxInt64))
		}
	}
	if n := resources.Count(v1.ResourceMemory, resource.MustParse("1Ki")); n != 1024 {
		t.Errorf("1Ki counts as %d, want 1024", n)
	}
}
