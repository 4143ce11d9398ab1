package env_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/container/env"
)

// one resolves a container with one variable.
func one(t *testing.T, in env.Input, source v1.EnvVarSource) (string, error) {
	t.Helper()
	in.Pod = in.Pod.DeepCopy()
	in.Pod.Spec.Containers[0].Env = []v1.EnvVar{from("V", source)}
	in.Container = "c"
	vars, err := env.MakeEnvironment(t.Context(), in, env.Sources{})
	if err != nil {
		return "", err
	}
	return vars[0].Value, nil
}

func TestFieldRef(t *testing.T) {
	p := pod(v1.Container{})
	p.Labels = map[string]string{"app": "web", "b.example/x": "1"}
	p.Annotations = map[string]string{"B.example/Note": `a "b"`, "a": "1"}
	p.Spec.NodeName, p.Spec.ServiceAccountName = "node-1", "sa"
	full := env.Input{Pod: p, PodIPs: []string{"10.0.0.1", "fd00::1"}, HostIPs: []string{"192.0.2.1", "fd01::1"}}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "ns", "metadata.uid": "u-1",
		"metadata.labels['app']": "web", "metadata.labels['b.example/x']": "1", "metadata.labels['none']": "",
		"metadata.annotations['B.example/Note']": `a "b"`, "metadata.annotations['none']": "",
		"metadata.labels": "app=\"web\"\nb.example/x=\"1\"", "metadata.annotations": "B.example/Note=\"a \\\"b\\\"\"\na=\"1\"",
		"spec.nodeName": "node-1", "spec.host": "node-1", "spec.serviceAccountName": "sa",
		"status.podIP": "10.0.0.1", "status.podIPs": "10.0.0.1,fd00::1",
		"status.hostIP": "192.0.2.1", "status.hostIPs": "192.0.2.1,fd01::1",
	} {
		for _, version := range []string{"v1", ""} {
			got, err := one(t, full, v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: version, FieldPath: path}})
			if err != nil || got != want {
				t.Errorf("%s: %q, error %v; want %q", path, got, err, want)
			}
		}
	}
	for _, path := range []string{"", "status.phase", "spec.nodename", "metadata.labels['", "metadata.labels[app]", "metadata.labels['a b']",
		"metadata.annotations['a/b/c']", "spec['a']", "metadata.labels['A.example/x']", "metadata.labels['app'].x"} {
		if got, err := one(t, full, v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}); err == nil || !strings.Contains(err.Error(), "fieldRef.fieldPath") {
			t.Errorf("%q: %q, error %v; want the path refused", path, got, err)
		}
	}
	if _, err := one(t, full, v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"}}); err == nil {
		t.Error("no error for an unknown API version")
	}
}

func TestFieldRefOfAddressesNotKnown(t *testing.T) {
	in := env.Input{Pod: pod(v1.Container{})}
	for _, path := range []string{"status.podIP", "status.podIPs"} {
		if got, err := one(t, in, v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}); err != nil || got != "" {
			t.Errorf("%s: %q, error %v; want it empty", path, got, err)
		}
	}
	for _, path := range []string{"status.hostIP", "status.hostIPs"} {
		if _, err := one(t, in, v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestResourceFieldRef(t *testing.T) {
	own := pod(v1.Container{Resources: v1.ResourceRequirements{
		Limits:   list("cpu", "1500m", "memory", "65Mi", "hugepages-2Mi", "4Mi", "ephemeral-storage", "1Gi"),
		Requests: list("cpu", "100m", "memory", "32Mi"),
	}})
	own.Spec.InitContainers = []v1.Container{{Name: "other", Resources: v1.ResourceRequirements{Limits: list("cpu", "3")}}}
	none, zero, whole := pod(v1.Container{}), pod(v1.Container{Resources: v1.ResourceRequirements{Limits: list("cpu", "0")}}), pod(v1.Container{})
	whole.Spec.Resources = &v1.ResourceRequirements{Limits: list("cpu", "5", "ephemeral-storage", "1Gi")}
	node := list("cpu", "8", "memory", "16Gi", "ephemeral-storage", "100Gi", "hugepages-2Mi", "1Gi")

	for _, tc := range []struct {
		pod                          *v1.Pod
		container, resource, divisor string
		want                         string
	}{
		{own, "", "limits.cpu", "0", "2"},
		{own, "", "limits.cpu", "1m", "1500"},
		{own, "", "limits.cpu", "1Mi", "1"},
		{own, "", "limits.memory", "0", "68157440"},
		{own, "", "limits.memory", "1Mi", "65"},
		{own, "", "limits.memory", "64Mi", "2"},
		{own, "", "limits.memory", "1m", "68157440"},
		{own, "", "limits.ephemeral-storage", "1Gi", "1"},
		{own, "", "limits.hugepages-2Mi", "1Mi", "4"},
		{own, "", "requests.hugepages-2Mi", "1Mi", "0"},
		{own, "", "requests.cpu", "0", "1"},
		{own, "", "requests.memory", "1Mi", "32"},
		{own, "other", "limits.cpu", "1", "3"},
		{own, "other", "limits.memory", "1Gi", "16"},
		{none, "", "limits.cpu", "1", "8"},
		{none, "", "limits.memory", "1Gi", "16"},
		{none, "", "limits.ephemeral-storage", "1Gi", "100"},
		{none, "", "limits.hugepages-2Mi", "1", "0"},
		{none, "", "requests.cpu", "1", "0"},
		{zero, "", "limits.cpu", "1", "8"},
		{whole, "", "limits.cpu", "1", "5"},
		{whole, "", "limits.memory", "1Gi", "16"},
		{whole, "", "limits.ephemeral-storage", "1Gi", "100"},
	} {
		ref := &v1.ResourceFieldSelector{ContainerName: tc.container, Resource: tc.resource, Divisor: resource.MustParse(tc.divisor)}
		got, err := one(t, env.Input{Pod: tc.pod, Allocatable: node}, v1.EnvVarSource{ResourceFieldRef: ref})
		if err != nil || got != tc.want {
			t.Errorf("%s %s / %s: %q, error %v; want %s", tc.container, tc.resource, tc.divisor, got, err, tc.want)
		}
	}
}

// A quantity may be larger than an int64 holds, and is then cut to anything, 0
// included.
func TestQuantitiesTooLargeAreErrors(t *testing.T) {
	p := pod(v1.Container{Resources: v1.ResourceRequirements{Limits: list("cpu", "20P", "memory", "20E", "ephemeral-storage", "9223372036854775807")}})
	for _, tc := range []struct{ resource, divisor, want string }{
		{"limits.ephemeral-storage", "16E", "resourceFieldRef.divisor"},
		{"limits.ephemeral-storage", "20E", "resourceFieldRef.divisor"},
		{"requests.cpu", "16E", "resourceFieldRef.divisor"},
		{"requests.cpu", "100E", "resourceFieldRef.divisor"},
		{"limits.cpu", "1", "20P, too large"},
		{"limits.memory", "1", "20E, too large"},
	} {
		ref := &v1.ResourceFieldSelector{Resource: tc.resource, Divisor: resource.MustParse(tc.divisor)}
		got, err := one(t, env.Input{Pod: p}, v1.EnvVarSource{ResourceFieldRef: ref})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s / %s: %q, error %v; want one that says %s", tc.resource, tc.divisor, got, err, tc.want)
		}
	}
	ref := &v1.ResourceFieldSelector{Resource: "limits.ephemeral-storage", Divisor: resource.MustParse("1")}
	if got, err := one(t, env.Input{Pod: p}, v1.EnvVarSource{ResourceFieldRef: ref}); err != nil || got != "9223372036854775807" {
		t.Errorf("the largest value: %q, error %v", got, err)
	}
}

func TestResourceFieldRefErrors(t *testing.T) {
	for _, tc := range []struct{ container, resource, divisor, want string }{
		{"", "", "0", "resourceFieldRef.resource"},
		{"", "limits", "0", "resourceFieldRef.resource"},
		{"", "limits.pods", "0", "resourceFieldRef.resource"},
		{"", "wants.cpu", "0", "resourceFieldRef.resource"},
		{"", "limits.cpu", "-1", "resourceFieldRef.divisor"},
		{"x", "limits.cpu", "0", "resourceFieldRef.containerName"},
	} {
		ref := &v1.ResourceFieldSelector{ContainerName: tc.container, Resource: tc.resource, Divisor: resource.MustParse(tc.divisor)}
		_, err := one(t, env.Input{Pod: pod(v1.Container{})}, v1.EnvVarSource{ResourceFieldRef: ref})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want %s named", tc, err, tc.want)
		}
	}
}
