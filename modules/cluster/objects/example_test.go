package objects_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/modules/cluster/objects"
)

// The first request for a ConfigMap starts a watch of it. Later requests return the newest version from the watch.
func Example() {
	kube := fake.NewClientset(&v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"colour": "green"},
	})
	o, err := objects.New(objects.Config{Kube: kube, Pods: func() []*v1.Pod { return nil }})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })

	settings, err := o.ConfigMap(ctx, "default", "settings")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(settings.Data["colour"])
	cancel()
	running.Wait()
	// Output: green
}
