package podspec_test

import (
	"errors"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/yaml"

	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// A manifest from a folder becomes a pod that can be run.
func Example() {
	manifest := `
metadata: {name: web}
spec:
  containers:
  - name: nginx
    image: nginx:1.29
    resources: {limits: {cpu: "1", memory: 64Mi}}
`
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(manifest), pod); err != nil {
		log.Fatal(err)
	}
	pod = podspec.Static(pod, "edge-7", podspec.Source{Location: "/etc/pods/web.yaml"})
	pod = podspec.Default(pod)
	if err := podspec.Validate(pod); err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Namespace, pod.Name, pod.UID)
	fmt.Println(pod.Spec.RestartPolicy, pod.Spec.Containers[0].ImagePullPolicy, qos.Class(pod))
	// Output:
	// default web-edge-7 a2b6ca8ca237761ed0dbaa676d19b7ae
	// Always IfNotPresent Guaranteed
}

// The error lists all invalid fields.
func ExampleValidate() {
	pod := podspec.Default(&v1.Pod{})
	pod.Name, pod.Namespace = "Web", "default"
	pod.Spec.Containers = []v1.Container{{Name: "a", Image: "a:1", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}}
	var all utilerrors.Aggregate
	if errors.As(podspec.Validate(podspec.Default(pod)), &all) {
		for _, err := range all.Errors()[1:] {
			fmt.Println(err)
		}
	}
	// Output:
	// spec.containers[0].volumeMounts[0].name: Not found: "data"
}
