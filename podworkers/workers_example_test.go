package podworkers_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
)

// printer is a Syncer that prints its calls.
type printer struct{ started chan struct{} }

func (p printer) SyncPod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) (podworkers.Result, error) {
	fmt.Println("start", w.Pod.Name)
	close(p.started)
	return podworkers.Result{}, nil
}

func (printer) SyncTerminatingPod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) error {
	fmt.Printf("stop %s within %d s\n", w.Pod.Name, *w.GracePeriodSeconds)
	return nil
}

func (printer) SyncTerminatingRuntimePod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) error {
	fmt.Println("stop", w.RuntimePod.Name)
	return nil
}

func (printer) RemovePod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) error {
	fmt.Println(w.UID, "is removed:", w.Removal)
	return nil
}

func (printer) SyncTerminatedPod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) error {
	fmt.Println("clean up after", w.Pod.Name)
	return nil
}

// An agent runs a pod, and stops all pods before it ends.
func ExampleWorkers() {
	started := make(chan struct{})
	workers, err := podworkers.New(podworkers.Config{Syncer: printer{started}})
	if err != nil {
		panic(err)
	}
	ctx, detach := context.WithCancel(context.Background())
	over := make(chan error)
	go func() { over <- workers.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-0", Namespace: "default", UID: "4f1c"}}
	if err := workers.UpdatePod(podworkers.Update{Type: podworkers.Create, Pod: pod}); err != nil {
		panic(err)
	}
	<-started
	grace := int64(20)
	if err := workers.Drain(ctx, podworkers.StopRequest{GracePeriodSeconds: &grace}); err != nil {
		panic(err)
	}
	detach()
	fmt.Println("over:", <-over)
	// Output:
	// start shop-0
	// stop shop-0 within 20 s
	// clean up after shop-0
	// over: <nil>
}

// evictor is a Syncer that prints how it must stop pods.
type evictor struct{ printer }

func (evictor) SyncTerminatingPod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) error {
	fmt.Printf("stop %s and report %s: %s\n", w.Pod.Name, w.Report.Reason, w.Report.Message)
	return nil
}

// A pod is evicted: KillPod returns when none of its containers runs any more.
func ExampleWorkers_KillPod() {
	started := make(chan struct{})
	workers, err := podworkers.New(podworkers.Config{Syncer: evictor{printer{started}}})
	if err != nil {
		panic(err)
	}
	ctx, detach := context.WithCancel(context.Background())
	over := make(chan error)
	go func() { over <- workers.Run(ctx) }()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-0", Namespace: "default", UID: "4f1c"}}
	if err := workers.UpdatePod(podworkers.Update{Type: podworkers.Create, Pod: pod}); err != nil {
		panic(err)
	}
	<-started
	low := podworkers.StopReport{Reason: "Evicted", Message: "The node was low on resource: memory."}
	err = workers.KillPod(ctx, podworkers.Update{Pod: pod, Stop: &podworkers.StopRequest{Evict: true, Report: &low}})
	fmt.Println("stopped:", err == nil, workers.State(pod.UID).Terminated)
	if err := workers.Drain(ctx, podworkers.StopRequest{}); err != nil { // waits for the clean-up
		panic(err)
	}
	detach()
	<-over
	// Unordered output:
	// start shop-0
	// stop shop-0 and report Evicted: The node was low on resource: memory.
	// stopped: true true
	// clean up after shop-0
}
