package podref_test

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/podref"
)

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7"},
		Spec: v1.PodSpec{
			InitContainers:      []v1.Container{{Name: "migrate"}},
			Containers:          []v1.Container{{Name: "app"}},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
}

func TestPod(t *testing.T) {
	want := v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "7"}
	if got := podref.Pod(testPod()); *got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := podref.Pod(nil); got != nil {
		t.Errorf("the reference of no pod is %+v, want nil", got)
	}
}

func TestContainer(t *testing.T) {
	pod := testPod()
	for name, want := range map[string]string{
		"migrate": "spec.initContainers{migrate}", "app": "spec.containers{app}", "debug": "spec.ephemeralContainers{debug}",
		"left": "spec.containers{left}",
	} {
		got := podref.ContainerNamed(pod, name)
		if got.FieldPath != want || got.UID != "u" || got.Kind != "Pod" {
			t.Errorf("%s: %+v, want field path %s of the pod", name, got, want)
		}
		if ref, found := actions.FindContainer(pod, name); found && *podref.Container(pod, ref) != *got {
			t.Errorf("%s: by reference %+v, by name %+v", name, podref.Container(pod, ref), got)
		}
	}
}

func TestLog(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	podref.Log(log, testPod()).Info("line")
	podref.Log(log, nil).Info("line")
	want := []string{`"level"=0 "msg"="line" "pod"="ns/web" "podUID"="u"`, `"level"=0 "msg"="line"`}
	if len(lines) != 2 || lines[0] != want[0] || lines[1] != want[1] {
		t.Errorf("lines %q, want %q", lines, want)
	}
}
