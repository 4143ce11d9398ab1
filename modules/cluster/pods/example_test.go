package pods_test

import (
	"context"
	"fmt"
	"log"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/modules/cluster/pods"
	"github.com/podsync/podsync/syncpod/source"
)

// A Source delivers the pods that are bound to its node. An agent gets it in Config.Sources.
func Example() {
	web := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec:       v1.PodSpec{NodeName: "edge-7", Containers: []v1.Container{{Name: "app", Image: "registry.example/web:1"}}},
	}
	bound, err := pods.New(pods.Config{Kube: fake.NewClientset(web), NodeName: "edge-7"})
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = bound.Run(ctx, func(snapshot source.Snapshot) {
		for _, pod := range snapshot.Pods {
			fmt.Println(pod.Namespace, pod.Name)
		}
		cancel()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: default web
}
