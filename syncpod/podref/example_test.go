package podref_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/syncpod/podref"
)

// Messages and events name a pod as a kubelet does.
func ExampleDescribe() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "4f1d"}}
	pod.Spec.InitContainers = []v1.Container{{Name: "migrate"}}
	fmt.Println(podref.Describe(pod))
	fmt.Println(podref.Name(pod))
	fmt.Println(podref.ContainerNamed(pod, "migrate").FieldPath)
	// Output:
	// web_default(4f1d)
	// default/web
	// spec.initContainers{migrate}
}
