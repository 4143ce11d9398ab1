package syncpod_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// story is something that an agent does and that a crash may cut short.
type story struct {
	pod *v1.Pod
	// before brings the pod to where the story begins.
	before func(n *node, pod *v1.Pod)
	// act is repeated until it returns true: first by the agent that
	// crashes, and then by the next one.
	act func(ctx context.Context, n *node, pod *v1.Pod) (done bool)
	// end is the pod's final state.
	end func(n *node)
}

func stories() map[string]story {
	pod := func() *v1.Pod {
		return testPod(inits(ctr("one", "true"), sidecar("proxy"), ctr("two", "true")), containers(preStop(ctr("app"), "sleep", "3"), ctr("b")))
	}
	run := func(ctx context.Context, n *node, pod *v1.Pod) bool {
		r, err := n.SyncPod(ctx, pod, nil)
		synctest.Wait()
		return err == nil && r.Plan.NoOp()
	}
	runs := func(n *node) {
		n.Helper()
		for _, name := range []string{"proxy", "app", "b"} {
			if c := n.current(name); c.State != runtime.ContainerRunning {
				n.Errorf("%s is %v, want %v", name, c.State, runtime.ContainerRunning)
			}
		}
		if ready := n.readySandboxes(); ready != 1 {
			n.Errorf("%d sandboxes are ready", ready)
		}
	}
	settled := func(n *node, pod *v1.Pod) { n.settle(pod, time.Minute) }
	return map[string]story{
		"start": {pod: pod(), before: func(*node, *v1.Pod) {}, act: run, end: runs},
		"crash of a container": {pod: pod(), before: func(n *node, pod *v1.Pod) {
			settled(n, pod)
			n.exit("app", 1)
			n.exit("proxy", 1)
		}, act: run, end: runs},
		"end": {pod: pod(), before: settled, act: func(ctx context.Context, n *node, pod *v1.Pod) bool {
			return n.SyncTerminatingPod(ctx, syncpod.Termination{Pod: pod}) == nil
		}, end: func(n *node) { n.wantEnded() }},
	}
}

// F14: the agent is stopped after its k-th call, for every k, and a new one continues
// with the state of the runtime, which may have been restarted meanwhile.
func TestF14_CrashAfterEveryCall(t *testing.T) {
	i := 0
	all := stories()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, taken := range []struct {
			name string
			like critest.Model
		}{{"reserved", critest.Containerd2}, {"returned", critest.CRIO}} {
			for _, reboot := range []bool{false, true} {
				first, step := crashPoints(i)
				i++
				t.Run(fmt.Sprintf("%s/%s/reboot %v", name, taken.name, reboot), func(t *testing.T) {
					for k := first; ; k += step {
						crashed := false
						bubble(t, func(t *testing.T, n *node) { crashed = n.crashIn(all[name], k, reboot) }, names(taken.like))
						if t.Failed() {
							t.Fatalf("with a crash after call %d", k)
						}
						if !crashed {
							if k < 10 {
								t.Errorf("only %d calls", k)
							}
							return
						}
					}
				})
			}
		}
	}
}

// sparse is how many calls lie between two crashes of a test that does not try all.
const sparse = 6

// crashPoints returns the first call after which the i-th of several tests crashes
// the agent, and the step from each such call to the next. It is every call, unless
// that takes too long: then six tests share the calls out among them.
func crashPoints(i int) (first, step int) {
	if raceDetector || testing.Short() {
		return 1 + i%sparse, sparse
	}
	return 1, 1
}

// crashIn runs a story with a crash after call k, and reports whether the story has
// that many calls.
func (n *node) crashIn(s story, k int, reboot bool) bool {
	s.before(n, s.pod)
	n.watch()
	ctx, cancel := context.WithCancel(n.Context())
	defer cancel()
	conn := n.conn
	n.CrashAfter(k, func() {
		cancel()
		conn.Close()
	})
	for ctx.Err() == nil && !s.act(ctx, n, s.pod) {
		time.Sleep(time.Second)
	}
	synctest.Wait()
	if ctx.Err() == nil {
		return false
	}
	if reboot {
		n.Must(n.Restart(faults.Restart{Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}))
	}
	n.restart()
	for range 120 {
		if s.act(n.Context(), n, s.pod) {
			break
		}
		time.Sleep(time.Second)
	}
	s.end(n)
	n.checkJournal(s.pod)
	if n.Failed() {
		n.Logf("the calls were:\n%v", n.Journal())
	}
	return true
}

// checkJournal checks all calls: attempts increase, and
// within each sandbox init containers run first, in order. The attempt of an
// instance that was removed before its start leaves no trace,
// and may be used again.
func (n *node) checkJournal(pod *v1.Pod) {
	n.Helper()
	made, ran := map[string]int64{}, map[string]int64{}
	id := map[string]bool{}
	started := map[string][]string{}
	hasRun := map[string]bool{}
	for _, p := range n.Processes() {
		hasRun[p.ContainerID] = true
	}
	for _, c := range n.Journal().Pod(string(pod.UID)) {
		if c.Err != nil && !(c.Method == critest.StartContainer && hasRun[c.ContainerID]) { // a cancelled start may have had its effect
			continue
		}
		attempt := int64(c.Attempt) + 1
		switch c.Method {
		case critest.CreateContainer:
			this := c.Response().(*runtimeapi.CreateContainerResponse).GetContainerId()
			if !id[this] && (attempt < made[c.Container] || attempt <= ran[c.Container]) {
				n.Errorf("attempt %d of %s, after %d was made and %d was started", attempt-1, c.Container, made[c.Container]-1, ran[c.Container]-1)
			}
			made[c.Container], id[this] = attempt, true
		case critest.StartContainer:
			ran[c.Container] = attempt
			started[c.SandboxID] = append(started[c.SandboxID], c.Container)
		}
	}
	for sandbox, names := range started {
		n.checkOrder(sandbox, names, pod)
	}
}

func (n *node) checkOrder(sandbox string, names []string, pod *v1.Pod) {
	n.Helper()
	var order []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		order = append(order, c.Name)
	}
	reached := 0
	seen := map[string]bool{}
	for _, name := range names {
		at := slices.Index(order, name)
		if !seen[name] && at > reached {
			n.Errorf("in sandbox %.8s %s was started before %s: %v", sandbox, name, order[reached], names)
		}
		if !seen[name] {
			reached = at + 1
		}
		seen[name] = true
	}
}
