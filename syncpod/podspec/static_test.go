package podspec_test

import (
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec"
)

// If a UID changes, the pod is stopped and started again on every node
// where this module is updated. So these values must never change.
func TestStaticUIDs(t *testing.T) {
	file := podspec.Source{Location: "/etc/pods/web.yaml"}
	full, plain := read(t, "pod.yaml"), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	for _, tc := range []struct {
		pod    *v1.Pod
		node   string
		source podspec.Source
		want   string
	}{
		{full, "node-1", file, "3917e11a8db1eafa612f1359a48522cb"},
		{full, "node-2", file, "7d7f5ad282e8cfa1a650f9c240705f4c"},
		{full, "node-1", podspec.Source{Location: "/etc/pods/b.yaml"}, "d779514967a68c5758517f6290bce1c3"},
		{full, "node-1", podspec.Source{Kind: runtime.ConfigSourceHTTP, Location: "http://a/b"}, "68094a19419e52871e1b26e85fb99c4e"},
		{plain, "node-1", file, "10ec4e790c6f74ddbe51d3a6b9e8419c"},
	} {
		if got := string(podspec.Static(tc.pod, tc.node, tc.source).UID); got != tc.want {
			t.Errorf("%s on %s from %v: %s, want %s", tc.pod.Name, tc.node, tc.source, got, tc.want)
		}
	}
}

// Empty fields and the status are not part of a pod's identity.
func TestStaticUIDIsOfTheMeaning(t *testing.T) {
	uid := func(text string) string {
		return string(podspec.Static(parse(t, []byte(text)), "n", podspec.Source{}).UID)
	}
	base := uid(`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","command":["","x"]}]}}`)
	for _, same := range []string{
		`{"spec":{"containers":[{"command":["","x"],"image":"i","name":"c"}]},"metadata":{"name":"a"}}`,
		`{"kind":"Pod","metadata":{"name":"a","labels":{},"creationTimestamp":null},"spec":{"volumes":[],"containers":[{"name":"c","image":"i","resources":{},"command":["","x"]}]},"status":{"phase":"Running"}}`,
	} {
		if got := uid(same); got != base {
			t.Errorf("%s has another UID", same)
		}
	}
	for _, other := range []string{
		`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","command":["x",""]}]}}`,
		`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","command":["x"]}]}}`,
		`{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","command":["","x"]}]}}`,
	} {
		if got := uid(other); got == base {
			t.Errorf("%s has the same UID", other)
		}
	}
}

func TestStatic(t *testing.T) {
	limit := int64(60)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "mine", Annotations: map[string]string{"a": "b"}},
		Spec:       v1.PodSpec{Tolerations: []v1.Toleration{{Key: "x"}, {Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &limit}}},
		Status:     v1.PodStatus{Phase: v1.PodRunning},
	}
	before := pod.DeepCopy()
	seen := time.Date(2026, 11, 21, 5, 0, 0, 7, time.UTC)
	got := podspec.Static(pod, "Node-1", podspec.Source{Location: "f", Seen: seen})
	want := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-node-1", Namespace: "default", UID: "mine", Annotations: map[string]string{
			"a": "b", "kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "mine", "kubernetes.io/config.seen": "2026-11-21T05:00:00.000000007Z",
		}},
		Spec: v1.PodSpec{NodeName: "Node-1", Tolerations: []v1.Toleration{
			{Key: "x"}, {Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
		}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
	if !reflect.DeepEqual(pod, before) {
		t.Error("the pod was changed")
	}
	for _, name := range []string{"", "../x", "Web"} { // as errors must print it
		if got := podspec.Static(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, "n", podspec.Source{}).Name; got != name {
			t.Errorf("the name %q became %q", name, got)
		}
	}
	if podspec.Static(nil, "n", podspec.Source{}) != nil {
		t.Error("nil has an identity")
	}

	pod.Namespace, pod.Spec.Tolerations = "shop", nil
	got = podspec.Static(pod, "n", podspec.Source{Kind: runtime.ConfigSourceHTTP})
	if got.Namespace != "shop" || got.Spec.Tolerations != nil || got.Annotations["kubernetes.io/config.source"] != "http" {
		t.Errorf("from a URL: %+v", got)
	}
	if _, ok := got.Annotations["kubernetes.io/config.seen"]; ok {
		t.Error("seen at no time")
	}
	named := podspec.Static(pod, "n", podspec.Source{Name: "edge"})
	if named.UID != podspec.Static(pod, "n", podspec.Source{}).UID || named.Annotations["kubernetes.io/config.source"] != "edge" {
		t.Errorf("from a source with a name: %+v", named)
	}
	if got := podspec.Static(pod, "n", podspec.Source{}).Spec.Tolerations; len(got) != 1 {
		t.Errorf("tolerations are %v", got)
	}
}
