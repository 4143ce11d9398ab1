package podworkers

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// notes is a Syncer that notes its calls, and a source of empty statuses.
type notes struct {
	mu      sync.Mutex
	calls   []string
	records []types.UID
	desired *Desired
}

func (n *notes) note(what string, w Work) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, what+" "+string(w.UID))
	if len(n.calls) > 50 {
		panic("the work does not end: " + strings.Join(n.calls, ", "))
	}
}

func (n *notes) setRecords(uids ...types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.records = uids
}

func (n *notes) recorded() []types.UID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.records
}

func (n *notes) take() (calls []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	calls, n.calls = n.calls, nil
	return calls
}

func (n *notes) SyncPod(_ context.Context, w Work, _ *runtime.PodStatus) (Result, error) {
	n.note("sync", w)
	return Result{Terminal: runtime.IsTerminal(w.Pod.Status.Phase)}, nil
}

func (n *notes) SyncTerminatingPod(_ context.Context, w Work, _ *runtime.PodStatus) error {
	n.note("stop", w)
	n.desired.Stopped(w.UID)
	return nil
}

func (n *notes) SyncTerminatingRuntimePod(_ context.Context, w Work, _ *runtime.PodStatus) error {
	n.note("stop orphan", w)
	n.desired.Stopped(w.UID)
	return nil
}

func (n *notes) SyncTerminatedPod(_ context.Context, w Work, _ *runtime.PodStatus) error {
	n.note("report", w)
	n.desired.Look() // this comes too early
	time.Sleep(time.Millisecond)
	return nil
}

func (n *notes) RemovePod(_ context.Context, w Work, _ *runtime.PodStatus) error {
	n.note("remove", w)
	n.setRecords()
	n.desired.Forgotten(w.UID)
	return nil
}

func (n *notes) GetNewerThan(_ context.Context, uid types.UID, _ time.Time) (*runtime.PodStatus, error) {
	return &runtime.PodStatus{UID: uid, ObservedAt: time.Now()}, nil
}

func named(uid string, phase v1.PodPhase) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)}, Status: v1.PodStatus{Phase: phase}}
}

// Each step of a source and of the runtime becomes the work of a kubelet.
func TestDesired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		workers, err := New(Config{Syncer: n, Status: n})
		if err != nil {
			t.Fatal(err)
		}
		var onNode []NodePod
		listed := false
		n.desired, err = NewDesired(DesiredConfig{
			Workers: workers, OnNode: func() ([]NodePod, bool) { return onNode, listed },
			Recorded: n.recorded,
			WithStatus: func(pod *v1.Pod) *v1.Pod {
				if pod.UID == "ended" {
					return named("ended", v1.PodSucceeded)
				}
				return pod
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = workers.Run(ctx) })
		running.Go(func() { _ = n.desired.Run(ctx) })
		defer running.Wait()
		defer cancel()
		a, ended := named("a", v1.PodPending), named("ended", v1.PodPending)
		for _, step := range []struct {
			name string
			do   func()
			want []string
		}{
			{"nothing is decided before the runtime is listed", func() { n.desired.Set([]*v1.Pod{a}) }, nil},
			{"a pod is added", func() { listed = true; n.desired.Look() }, []string{"sync a"}},
			{"nothing changes", n.desired.Look, nil},
			{"its status in the runtime changes", func() { n.desired.Changed("a") }, []string{"sync a"}},
			{"its spec changes", func() { n.desired.Set([]*v1.Pod{named("a", v1.PodPending)}) }, []string{"sync a"}},
			{"an orphan runs", func() {
				onNode = []NodePod{{RuntimePod: RuntimePod{UID: "o"}, Running: true, ObservedAt: time.Now()}}
				n.desired.Look()
			}, []string{"remove o", "stop orphan o"}},
			{"a list from before shows it", n.desired.Look, nil},
			{"it runs again", func() { onNode[0].ObservedAt = time.Now(); n.desired.Look() }, []string{"remove o", "stop orphan o"}},
			{"only records of another are left", func() { onNode = nil; n.setRecords("a", "r"); n.desired.Look() }, []string{"remove r"}},
			{"a pod that has finished with an earlier agent is added", func() {
				n.desired.Set([]*v1.Pod{a, ended})
			}, []string{"report ended", "stop ended", "sync a"}},
			{"the pod is removed", func() { n.desired.Set([]*v1.Pod{ended}) }, []string{"remove a", "report a", "stop a"}},
			{"and added again", func() { n.desired.Set([]*v1.Pod{ended, a}) }, []string{"sync a"}},
			{"a container of the pod that has finished runs", func() {
				onNode = []NodePod{{RuntimePod: RuntimePod{UID: "ended"}, Running: true, ObservedAt: time.Now()}}
				n.desired.Look()
			}, []string{"stop orphan ended"}},
		} {
			time.Sleep(time.Second)
			step.do()
			time.Sleep(10 * time.Millisecond) // longer than a report
			synctest.Wait()
			got := n.take()
			slices.Sort(got)
			if !slices.Equal(got, step.want) {
				t.Errorf("%s: %q, want %q", step.name, got, step.want)
			}
		}
	})
}

func TestDesiredNeedsItsParts(t *testing.T) {
	if _, err := NewDesired(DesiredConfig{}); err == nil {
		t.Error("without Workers")
	}
	if _, err := NewDesired(DesiredConfig{Workers: &Workers{}}); err == nil {
		t.Error("without OnNode")
	}
}
