package mirrors_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/modules/cluster/mirrors"
	"github.com/podsync/podsync/syncpod/source"
)

// A static pod gets a mirror pod in the API server as soon as an agent has received the static pod.
func Example() {
	kube := fake.NewClientset()
	listed := make(chan struct{})
	close(listed) // a pods.Source closes Listed after the first list
	m, err := mirrors.New(mirrors.Config{
		Kube: kube, Synced: listed,
		Node:    func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-7"}} },
		Running: func(types.UID) bool { return false },
	})
	if err != nil {
		log.Fatal(err)
	}
	static := source.NewPush()
	if err := static.Set(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "proxy-edge-7", UID: "static-uid",
			Annotations: map[string]string{"kubernetes.io/config.hash": "static-uid"}, // a source.Folder sets it
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "proxy", Image: "registry.example/proxy:1"}}},
	}); err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	created, err := kube.CoreV1().Pods("kube-system").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	running.Go(func() {
		// An agent runs this source, and receives the static pods from it.
		_ = m.Source(static).Run(ctx, func(source.Snapshot) {})
	})
	mirror := (<-created.ResultChan()).Object.(*v1.Pod)
	fmt.Println(mirror.Name, "mirrors the static pod", mirrors.Shown(mirror))
	cancel()
	running.Wait()
	// Output: proxy-edge-7 mirrors the static pod static-uid
}
