package worker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/worker"
)

// A removal is repeated until the runtime has nothing of the pod.
func TestRemovalIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{Images: []critest.Image{{Name: "app:v1"}}})
		for _, f := range []faults.Fault{
			{Match: faults.Match{Method: critest.RemovePodSandbox}, Err: status.Error(codes.Internal, "not now"), Times: 2},
			{Match: faults.Match{Method: critest.StopPodSandbox}, Err: status.Error(codes.Internal, "not now"), Times: 1},
		} {
			if _, err := rt.Inject(f); err != nil {
				t.Fatal(err)
			}
		}
		a := newAgent(cri.NewClient(conn), t.TempDir())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.run(ctx) }()
		a.desired.Set([]*v1.Pod{web()})
		time.Sleep(10 * time.Second)
		if !running(a) {
			t.Error("it does not run")
		}
		a.desired.Set(nil)
		select {
		case <-a.removed:
		case <-time.After(time.Hour):
			t.Error("it is not removed")
		}
		time.Sleep(10 * time.Second)
		if left := a.watcher.Pods(); len(left) > 0 {
			t.Errorf("%+v is left", left)
		}
		stop()
		<-ended
	})
}

func TestMissingParts(t *testing.T) {
	for _, c := range []worker.Config{{}, {Syncer: &syncpod.Syncer{}}} {
		if _, err := worker.New(c); err == nil || !strings.Contains(err.Error(), "worker: Config.") {
			t.Error(err)
		}
	}
}
