package loop_test

import (
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/source"
)

// A thousand pods start, settle, are updated, crash, and stop. An idle pod has no
// goroutine, and nothing is left of the pods in the end.
func TestThousandPods(t *testing.T) {
	count := manyPods
	inBubble(t, critest.Config{JournalLimit: 1}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		time.Sleep(10 * time.Second)
		idle, heap := goruntime.NumGoroutine(), heapBytes()
		pods := make([]*v1.Pod, count)
		for i := range pods {
			pods[i] = pod("file", fmt.Sprintf("p%d", i), fmt.Sprintf("u%d", i), forever)
		}
		set(t, src, pods...)
		settle(t, a, count, v1.PodRunning)
		// The runtime in memory has some goroutines for each container itself.
		perPod := float64(goruntime.NumGoroutine()-idle) / float64(count)
		kB := kBPerPod(heap, count)
		t.Logf("settled after %.1f goroutines and %.1f kB a pod, runtime in memory included", perPod, kB)
		if perPod > 12 || kB > 100 {
			t.Errorf("%.1f goroutines and %.1f kB a pod", perPod, kB)
		}
		for i := range pods {
			pods[i] = pods[i].DeepCopy()
			pods[i].Spec.Containers[0].Image = "registry.test/app:2"
		}
		set(t, src, pods...)
		time.Sleep(5 * time.Minute)
		settle(t, a, count, v1.PodRunning)
		for _, p := range a.Pods() {
			if got := p.Status.ContainerStatuses[0]; got.Image != "registry.test/app:2" || got.RestartCount != 1 {
				t.Fatalf("pod %s was not updated: %+v", p.Pod.Name, got)
			}
		}
		n.Restart(faults.Restart{Down: 10 * time.Second, Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped})
		time.Sleep(5 * time.Minute)
		settle(t, a, count, v1.PodRunning)
		set(t, src)
		time.Sleep(time.Minute)
		if left := a.Pods(); len(left) > 0 || n.store.len() > 0 {
			t.Errorf("%d pods and %d statuses are left", len(left), n.store.len())
		}
		left := kBPerPod(heap, count)
		t.Logf("%.1f kB a pod are left", left)
		if left > 20 {
			t.Errorf("%.1f kB a pod are left", left)
		}
		if got := goruntime.NumGoroutine(); got > idle+20 {
			t.Errorf("%d goroutines, %d before", got, idle)
		}
	})
}

// kBPerPod is by how much the heap has grown.
func kBPerPod(before uint64, pods int) float64 {
	return (float64(heapBytes()) - float64(before)) / float64(pods) / 1024
}

func heapBytes() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settle waits until so many pods are in a phase.
func settle(t *testing.T, a *agent, count int, phase v1.PodPhase) {
	t.Helper()
	for range 60 {
		if a.sink.phases()[phase] == count && a.Health().OK() {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%v are in which phase, and health is %.500v", a.sink.phases(), a.Health())
}

// The agent is killed at any call while pods start, run, are replaced and stop. The
// next agent brings all of them to their desired state.
func TestF14_AgentRestartedAtAnyCall(t *testing.T) {
	calls := 0
	life := func(t *testing.T, n *node, crashAt int) {
		src := source.NewStaticPush("file")
		a := n.start([]source.Source{src}, nil)
		var crashed atomic.Bool
		if crashAt > 0 {
			n.CrashAfter(crashAt, func() { crashed.Store(true); a.conn.Close(); a.cancel() })
		}
		stages := [][]*v1.Pod{
			{pod("file", "web", "w1", forever), job(), withInit(pod("file", "init", "i1", forever))},
			{pod("file", "web", "w2", forever), job(), withInit(pod("file", "init", "i1", forever)), pod("file", "crash", "c1", "sleep 1; exit 1")},
			{pod("file", "web", "w2", forever), job(), pod("file", "crash", "c1", "sleep 1; exit 1")},
		}
		for _, stage := range stages {
			if crashed.Load() {
				break
			}
			set(t, src, stage...)
			time.Sleep(40 * time.Second)
		}
		a.cancel()
		<-a.ended
		synctest.Wait() // the runtime has noticed: a call under way would act after the next agent has looked, and no restart is that fast
		calls = max(calls, len(n.Journal()))
		if crashAt == 0 {
			return
		}
		src = source.NewStaticPush("file")
		b := n.start([]source.Source{src}, nil)
		set(t, src, stages[2]...)
		time.Sleep(10 * time.Minute)
		n.wantRunning(1, "w2")
		n.wantRunning(0, "w1", "i1", "j1")
		n.wantStartedOnce(b, "j1")
		for _, c := range n.Journal().Pod("w2").Of(critest.StopContainer) {
			if n.Journal().Where(func(other critest.Call) bool { return other.ContainerID == c.ContainerID }).Count(critest.StartContainer) > 0 { // a container that was only created is replaced
				t.Errorf("the pod that is wanted was stopped: %v", c)
			}
		}
		if got := b.sink.of("c1").ContainerStatuses; len(got) != 1 || got[0].RestartCount < 4 {
			t.Errorf("the crashing pod is at %+v", got)
		}
	}
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) { life(t, n, 0) })
	random := rand.New(rand.NewPCG(1, 2))
	for range crashes {
		k := 1 + random.IntN(calls)
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			life(t, n, k)
			if t.Failed() {
				t.Fatalf("after a crash at call %d of %d", k, calls)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// The agent is killed while the runtime starts the container of a job. The call is cancelled in both cases, and only the
// processes of the node show whether the container ran.
func TestF14_AgentKilledWhileAContainerStarts(t *testing.T) {
	for when, ran := range map[faults.When]int{faults.Midway: 0, faults.After: 1} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			gate := &faults.Gate{}
			if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, When: when, Hang: gate}); err != nil {
				t.Fatal(err)
			}
			src := source.NewStaticPush("file")
			a := n.start([]source.Source{src}, nil)
			set(t, src, job())
			time.Sleep(time.Minute)
			if gate.Waiting() != 1 {
				t.Fatalf("%d calls wait, want 1", gate.Waiting())
			}
			a.kill()
			synctest.Wait()
			if start := n.Journal().Of(critest.StartContainer); len(start) != 1 || status.Code(start[0].Err) != codes.Canceled {
				t.Errorf("the runtime has answered\n%v, want Canceled", start)
			}
			if got := len(n.Processes()); got != ran {
				t.Errorf("%d processes ran, want %d", got, ran)
			}
			src = source.NewStaticPush("file")
			b := n.start([]source.Source{src}, nil)
			set(t, src, job())
			time.Sleep(10 * time.Minute)
			n.wantStartedOnce(b, "j1")
		})
	}
}

// wantStartedOnce checks that a job's only container was started once, and that the agent reports how it ended. A call
// without an answer may have had its effect: Succeeded is right if the process ran, and Failed if it did not.
func (n *node) wantStartedOnce(a *agent, uid types.UID) {
	n.Helper()
	phase := v1.PodFailed
	for _, p := range n.Processes() {
		if p.PodUID == string(uid) {
			phase = v1.PodSucceeded
		}
	}
	if got := a.sink.of(uid).Phase; got != phase {
		n.Errorf("the job is %s, want %s", got, phase)
	}
	if starts := n.Journal().Pod(string(uid)).Of(critest.StartContainer); len(starts) != 1 {
		n.Errorf("the job was started %d times:\n%v", len(starts), starts)
	}
}

func job() *v1.Pod { return once(pod("file", "job", "j1", "sleep 5")) }

func withInit(p *v1.Pod) *v1.Pod {
	p.Spec.InitContainers = []v1.Container{{Name: "init", Image: "registry.test/app:1", Command: []string{"sh", "-c", "sleep 2"}}}
	return p
}
