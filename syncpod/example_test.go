package syncpod_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// A pod is run, and then ended.
func Example() {
	ctx := context.Background()
	node, err := critest.New(critest.Config{}) // or any runtime, through cri.Dial
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	conn, err := node.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	root, err := os.MkdirTemp("", "agent")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	syncer, err := syncpod.New(syncpod.Config{
		Client:      cri.NewClient(conn),
		RuntimeName: "critest", // not needed for a client of cri.Dial
		Root:        root,
		Node:        syncpod.Node{LogsRoot: filepath.Join(root, "logs")}, // by default /var/log/pods
	})
	if err != nil {
		log.Fatal(err)
	}

	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "0b1c"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{
				{Name: "app", Image: "registry.test/app:1"},
				{Name: "proxy", Image: "registry.test/proxy:1"},
			},
		},
	}
	for {
		result, err := syncer.SyncPod(ctx, pod, nil)
		if err != nil {
			log.Fatal(err) // an agent would retry at result.NextTry
		}
		if result.Plan.NoOp() {
			break
		}
		for _, start := range result.Plan.Start {
			fmt.Println("start", start.Container)
		}
	}
	if err := syncer.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod}); err != nil {
		log.Fatal(err)
	}
	if err := syncer.SyncTerminatedPod(ctx, pod, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ended")
	// Output:
	// start container "app"
	// start container "proxy"
	// ended
}

// eventsRecorder is the EventRecorder of client-go's tools/events.
type eventsRecorder interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

type printed struct{}

func (printed) Eventf(_, _ runtime.Object, eventtype, reason, action, note string, args ...any) {
	fmt.Println(eventtype, reason, action, fmt.Sprintf(note, args...))
}

// A function passes the events to a recorder of client-go's tools/events. That API requires
// an action; here it is the same as the reason.
func ExampleEventRecorderFunc() {
	var recorder eventsRecorder = printed{} // as broadcaster.NewRecorder returns it
	config := syncpod.Config{
		Events: syncpod.EventRecorderFunc(func(object runtime.Object, eventtype, reason, format string, args ...any) {
			recorder.Eventf(object, nil, eventtype, reason, reason, format, args...)
		}),
	}
	config.Events.Eventf(&v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "web"}, v1.EventTypeNormal, "Started", "Started container %s", "app")
	// Output: Normal Started Started Started container app
}
