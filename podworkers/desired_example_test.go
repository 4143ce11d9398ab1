package podworkers_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
)

// announcer is a printer that announces the end of pods.
type announcer struct {
	printer
	removed chan types.UID
}

func (a announcer) RemovePod(ctx context.Context, w podworkers.Work, s *runtime.PodStatus) error {
	defer func() { a.removed <- w.UID }()
	return a.printer.RemovePod(ctx, w, s)
}

// A source delivers all pods that should run. A pod that it no longer delivers is stopped and removed.
func ExampleDesired() {
	started, over := make(chan struct{}), make(chan types.UID, 1)
	workers, err := podworkers.New(podworkers.Config{Syncer: announcer{printer{started}, over}})
	if err != nil {
		fmt.Println(err)
		return
	}
	desired, err := podworkers.NewDesired(podworkers.DesiredConfig{
		Workers: workers,
		OnNode:  func() (pods []podworkers.NodePod, listed bool) { return nil, true }, // the runtime has no pods
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- workers.Run(ctx) }()
	go func() { ended <- desired.Run(ctx) }()

	desired.Set([]*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "shop-0", Namespace: "default", UID: "4f1c"}}})
	<-started
	desired.Set(nil)
	<-over
	stop()
	<-ended
	<-ended
	// Output:
	// start shop-0
	// stop shop-0 within 1 s
	// clean up after shop-0
	// 4f1c is removed: no source wants the pod
}
