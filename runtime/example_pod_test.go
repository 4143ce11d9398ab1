package runtime_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// A pod from a file or a URL is static; a pod from an API server is not.
func ExampleIsStatic() {
	pod := &v1.Pod{}
	pod.Annotations = map[string]string{runtime.AnnotationConfigSource: runtime.ConfigSourceFile}
	fmt.Println(runtime.IsStatic(pod))
	pod.Annotations[runtime.AnnotationConfigSource] = runtime.ConfigSourceAPI
	fmt.Println(runtime.IsStatic(pod))
	// Output:
	// true
	// false
}

// A container whose definition has changed has another hash, and is replaced.
func ExampleHashContainer() {
	c := &v1.Container{Name: "app", Image: "web:1"}
	before := runtime.HashContainer(c)
	c.Image = "web:2"
	fmt.Println(before == runtime.HashContainer(c))
	// Output: false
}
