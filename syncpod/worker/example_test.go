package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/worker"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func web() *v1.Pod {
	return podspec.Default(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "8c1f"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: new(int64(1)), Containers: []v1.Container{{Name: "app", Image: "app:v1", ImagePullPolicy: v1.PullIfNotPresent}}},
	})
}

func running(a *agent) bool {
	for _, p := range a.watcher.Pods() {
		if p.Running {
			return true
		}
	}
	return false
}

// An agent is a loop of one's own around a Syncer.
type agent struct {
	watcher *pleg.Watcher
	workers *podworkers.Workers
	desired *podworkers.Desired
	removed chan types.UID
}

// newAgent connects a Syncer with the workers, and these with the pods of one source.
func newAgent(client *cri.Client, logs string) *agent {
	a := &agent{removed: make(chan types.UID, 1)}
	statuses, err := reader.New(reader.Config{Runtime: client, RuntimeName: "critest"})
	must(err)
	sandboxes, err := run.New(run.Config{Runtime: client})
	must(err)
	syncer, err := syncpod.New(syncpod.Config{
		Client: client, RuntimeName: "critest", Node: syncpod.Node{LogsRoot: logs}, Parts: syncpod.Parts{Statuses: statuses, Sandboxes: sandboxes},
	})
	must(err)
	w, err := worker.New(worker.Config{Syncer: syncer, Runtime: client, Sandboxes: sandboxes, Statuses: statuses,
		Stopped: func(uid types.UID) { a.desired.Stopped(uid) },
		Ended:   func(types.UID) { a.desired.Look() },
		Removed: func(uid types.UID) {
			a.desired.Forgotten(uid)
			a.removed <- uid
		},
	})
	must(err)
	a.watcher, err = pleg.New(pleg.Config{
		Reader: statuses, Events: client, Observed: syncer.Observe,
		Changed:          func(uid types.UID, _ *runtime.PodStatus) { a.desired.Changed(uid) },
		AvailableChanged: func(error) { a.desired.Look() }, // no pod is started before the first list
	})
	must(err)
	a.workers, err = podworkers.New(podworkers.Config{Syncer: w, Status: a.watcher})
	must(err)
	a.desired, err = podworkers.NewDesired(podworkers.DesiredConfig{Workers: a.workers, OnNode: func() (pods []podworkers.NodePod, listed bool) {
		_, err := a.watcher.Available()
		for _, p := range a.watcher.Pods() {
			pods = append(pods, podworkers.NodePod{RuntimePod: podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}, Running: p.Running, ObservedAt: p.ObservedAt})
		}
		return pods, err == nil
	}})
	must(err)
	return a
}

// run runs the parts until ctx ends.
func (a *agent) run(ctx context.Context) error {
	ended := make(chan error, 3)
	for _, part := range []func(context.Context) error{a.watcher.Run, a.workers.Run, a.desired.Run} {
		go func() { ended <- part(ctx) }()
	}
	return errors.Join(<-ended, <-ended, <-ended)
}

// A pod that is desired runs. A pod that is not desired any more is stopped and removed from the node.
func Example() {
	rt, err := critest.New(critest.Config{Images: []critest.Image{{Name: "app:v1"}}})
	must(err)
	defer rt.Close()
	conn, err := rt.Dial()
	must(err)
	defer conn.Close()
	logs, err := os.MkdirTemp("", "podsync-")
	must(err)
	defer os.RemoveAll(logs)
	a := newAgent(cri.NewClient(conn), logs)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx) }()
	a.desired.Set([]*v1.Pod{web()})
	for !running(a) {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("it runs")
	a.desired.Set(nil)
	fmt.Println("removed", <-a.removed)
	stop()
	<-ended
	// Output:
	// it runs
	// removed 8c1f
}
