package status_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podsync/podsync/modules/cluster/status"
)

// onePod has the only pod of the node. A node agent uses a *pods.Source.
type onePod struct{ pod *v1.Pod }

func (o onePod) Get(_, _ string, _ types.UID) *v1.Pod { return o.pod }
func (o onePod) Synced() bool                         { return true }

// A Manager is the Sink of an agent. Flush waits until the API server has the newest statuses.
func Example() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
	kube := fake.NewClientset(pod)
	m, err := status.New(status.Config{Kube: kube, Pods: onePod{pod}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })

	if err := m.SetPodStatus(ctx, pod, v1.PodStatus{Phase: v1.PodRunning}); err != nil {
		log.Fatal(err)
	}
	if err := m.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	written, err := kube.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(written.Status.Phase)
	cancel()
	running.Wait()
	// Output: Running
}
