package runtime

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestPodsOfTheNodeAreStatic(t *testing.T) {
	pod := &v1.Pod{}
	if IsStatic(pod) || IsStatic(nil) {
		t.Error("a pod without a source is static")
	}
	for source, want := range map[string]bool{ConfigSourceFile: true, ConfigSourceHTTP: true, "own": true, ConfigSourceAPI: false} {
		pod.Annotations = map[string]string{AnnotationConfigSource: source}
		if got := IsStatic(pod); got != want {
			t.Errorf("a pod from %s is static: %v", source, got)
		}
	}
}
