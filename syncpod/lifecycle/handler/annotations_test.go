package handler_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container"
	hook "github.com/podsync/podsync/syncpod/lifecycle/handler"
)

func TestPreStopFromAnnotations(t *testing.T) {
	handler := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "/stop", Port: intstr.FromString("admin")}}
	ports := []v1.ContainerPort{{Name: "admin", ContainerPort: 8081, Protocol: v1.ProtocolTCP}}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Lifecycle: &v1.Lifecycle{PreStop: handler}, Ports: ports}}}}
	config, err := container.GenerateContainerConfig(container.Input{Pod: pod, Name: "app", Node: container.Node{MemoryBytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := hook.PreStop(config.Annotations)
	if err != nil || !reflect.DeepEqual(req, hook.Request{Handler: handler, Ports: ports}) {
		t.Errorf("got %+v, %v, want %v and no error", req, err, hook.Request{Handler: handler, Ports: ports})
	}
}

func TestNoPreStopInAnnotations(t *testing.T) {
	for _, a := range []map[string]string{nil, {}, {runtime.AnnotationPreStopHandler: ""}, {runtime.AnnotationPreStopHandler: "null", runtime.AnnotationPorts: "{"}} {
		if req, err := hook.PreStop(a); err != nil || req.Handler != nil {
			t.Errorf("%v: got %+v, %v", a, req, err)
		}
	}
}

func TestBrokenAnnotationsAreNamed(t *testing.T) {
	for key, a := range map[string]map[string]string{
		runtime.AnnotationPreStopHandler: {runtime.AnnotationPreStopHandler: "{"},
		runtime.AnnotationPorts:          {runtime.AnnotationPreStopHandler: "{}", runtime.AnnotationPorts: "[1]"},
	} {
		if _, err := hook.PreStop(a); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("got %v, want %s named", err, key)
		}
	}
}

func FuzzPreStop(f *testing.F) {
	good, _ := json.Marshal(v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}})
	f.Add(string(good), `[{"name":"web","containerPort":80}]`)
	f.Add(`{"httpGet":{"port":"web"}}`, "null")
	f.Fuzz(func(t *testing.T, handler, ports string) {
		req, err := hook.PreStop(map[string]string{runtime.AnnotationPreStopHandler: handler, runtime.AnnotationPorts: ports})
		if err != nil && req.Handler != nil {
			t.Error("a request with an error")
		}
	})
}
