package loop_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	podimage "github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/probe"
	"github.com/podsync/podsync/syncpod/source"
)

// An agent does the same with and without observers: nothing depends on being observed. The runtime's calls, the events, the last
// status and the pods that have finished are those of a pod that crashes, cannot be inspected, and is deleted.
func TestObserversObserve(t *testing.T) {
	all := nodeagent.Observers{
		Sync: syncpod.NopObserver{}, Workers: podworkers.NopObserver{}, Watch: pleg.NopObserver{}, Probes: probe.NopObserver{}, Images: podimage.NopObserver{},
	}
	without, with := lifeOf(t, nodeagent.Observers{}), lifeOf(t, all)
	if !slices.Equal(with, without) {
		t.Errorf("with observers:\n%q\nwithout:\n%q", with, without)
	}
	for _, part := range []string{"FailedSync", "finished p", "Succeeded", "RemovePodSandbox default/web attempt 0", "StartContainer default/web app attempt 2"} {
		if !slices.Contains(without, part) {
			t.Errorf("%s is missing without observers: %q", part, without)
		}
	}
}

func lifeOf(t *testing.T, o nodeagent.Observers) (seen []string) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		var mu sync.Mutex
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, text)
		}
		push := source.NewPush()
		a := n.start([]source.Source{push}, func(c *nodeagent.Config) {
			c.Observe(o)
			c.Sync.Events = syncpod.EventRecorderFunc(func(_ k8sruntime.Object, _, reason, _ string, _ ...any) { note(reason) })
			c.Finished = func(pod types.UID) { note("finished " + string(pod)) }
		})
		p := pod("api", "web", "p", forever)
		set(t, push, p)
		time.Sleep(time.Minute)
		n.Exit(n.Status("p").Containers[0].ID.ID, 1)
		time.Sleep(time.Minute)
		app := n.Status("p").Latest("app").ID.ID
		broken := n.Fault(faults.Fault{Match: faults.Match{Method: critest.ContainerStatus}, Times: faults.Always, Err: status.Error(codes.Internal, "input/output error")})
		n.Exit(app, 1)
		time.Sleep(time.Minute)
		broken.Remove()
		time.Sleep(time.Minute)
		set(t, push)
		time.Sleep(time.Minute)
		note(string(a.sink.of("p").Phase))
		a.stop()
		seen = append(seen, n.Journal().Changes().Sequence()...)
	})
	slices.Sort(seen)
	return slices.Compact(seen)
}
