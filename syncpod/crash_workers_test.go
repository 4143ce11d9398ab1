package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/syncpod"
)

// crew is a Syncer with the workers that drive it.
type crew struct {
	*node
	workers *podworkers.Workers
	told    map[types.UID]bool
	dismiss func()
	// looking is set while the test itself calls the runtime.
	looking atomic.Bool
}

// hire starts workers on the agent that the node has.
func (n *node) hire() *crew {
	n.Helper()
	workers, err := podworkers.New(podworkers.Config{Syncer: driven{n.Syncer}, Status: fresh{n}})
	n.Must(err)
	ctx, cancel := context.WithCancel(n.Context())
	over := make(chan error, 1)
	go func() { over <- workers.Run(ctx) }()
	synctest.Wait()
	return &crew{node: n, workers: workers, told: map[types.UID]bool{}, dismiss: func() {
		cancel()
		<-over
	}}
}

// driven is a Syncer as workers want it.
type driven struct{ *syncpod.Syncer }

func (d driven) SyncPod(ctx context.Context, w podworkers.Work, s *runtime.PodStatus) (podworkers.Result, error) {
	r, err := d.Syncer.SyncPod(ctx, w.Pod, s)
	return podworkers.Result{Terminal: r.Terminal, Next: r.NextTry}, err
}

func (d driven) SyncTerminatingPod(ctx context.Context, w podworkers.Work, s *runtime.PodStatus) error {
	return d.Syncer.SyncTerminatingPod(ctx, syncpod.Termination{Pod: w.Pod, Status: s, Deadline: w.Deadline})
}

func (d driven) SyncTerminatingRuntimePod(ctx context.Context, w podworkers.Work, s *runtime.PodStatus) error {
	return d.Syncer.SyncTerminatingRuntimePod(ctx, syncpod.RuntimePod{UID: w.UID, Name: w.RuntimePod.Name, Namespace: w.RuntimePod.Namespace, Status: s})
}

func (d driven) SyncTerminatedPod(ctx context.Context, w podworkers.Work, s *runtime.PodStatus) error {
	return d.Syncer.SyncTerminatedPod(ctx, w.Pod, s)
}

// RemovePod removes nothing: the tests check the runtime's objects.
func (d driven) RemovePod(context.Context, podworkers.Work, *runtime.PodStatus) error { return nil }

// fresh reads the runtime for each request.
type fresh struct{ n *node }

func (f fresh) GetNewerThan(ctx context.Context, uid types.UID, _ time.Time) (*runtime.PodStatus, error) {
	return f.n.Reader().PodStatus(ctx, uid, nil)
}

// housekeep reports the wanted pods to the workers, and the other pods of the runtime.
func (c *crew) housekeep(wanted []*v1.Pod) {
	has := map[types.UID]*runtime.PodStatus{}
	var listed []*podreader.ListedPod
	_ = c.look(func() (err error) {
		for _, pod := range wanted {
			has[pod.UID] = c.has(pod.UID)
		}
		listed, err = c.Reader().List(c.Context())
		return err // of an agent that has crashed
	})
	c.report(wanted, has, listed)
}

func (c *crew) report(wanted []*v1.Pod, has map[types.UID]*runtime.PodStatus, listed []*podreader.ListedPod) {
	var uids []types.UID
	for _, pod := range wanted {
		uids = append(uids, pod.UID)
	}
	known, _ := c.workers.SyncKnownPods(uids)
	for _, k := range known {
		if k.Orphan && k.Phase == podworkers.Syncing {
			_ = c.workers.UpdatePod(podworkers.Update{Type: podworkers.Kill, RuntimePod: &podworkers.RuntimePod{UID: k.UID}})
		}
	}
	for _, pod := range wanted {
		news := podworkers.Changed
		if !c.told[pod.UID] {
			news, c.told[pod.UID] = podworkers.Create, true
		}
		_ = c.workers.UpdatePod(podworkers.Update{Type: news, Pod: pod, Status: has[pod.UID]})
	}
	c.killStrangers(uids, listed)
}

// look reads the runtime once the agent is idle.
func (c *crew) look(f func() error) error {
	synctest.Wait()
	c.looking.Store(true)
	defer c.looking.Store(false)
	return f()
}

// crashAfter crashes the agent after its k-th call from now.
func (c *crew) crashAfter(k int, crash func()) {
	var calls atomic.Int64
	c.OnCall(func(int, critest.Call) {
		if !c.looking.Load() && calls.Add(1) == int64(k) {
			crash()
		}
	})
}

// has returns the containers of a pod in the runtime.
func (c *crew) has(uid types.UID) *runtime.PodStatus {
	status, err := c.Reader().PodStatus(c.Context(), uid, nil)
	if err != nil {
		return nil // the agent has crashed
	}
	return status
}

func (c *crew) killStrangers(wanted []types.UID, listed []*podreader.ListedPod) {
	all := map[types.UID]bool{}
	for _, uid := range wanted {
		all[uid] = true
	}
	for _, pod := range listed {
		if !all[pod.UID] && pod.Running() {
			_ = c.workers.UpdatePod(podworkers.Update{Type: podworkers.Kill, RuntimePod: &podworkers.RuntimePod{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}})
		}
	}
}

// plot is something that happens to pods, and that a crash may cut short.
type plot struct {
	// first are the initial pods, then the pods that are wanted later.
	first, then []*v1.Pod
	// upset is what happens to them in between, nil for nothing.
	upset func(n *node)
	// over returns the differences from the desired final state.
	over func(n *node) error
}

func plots() map[string]plot {
	pod := testPod(inits(ctr("one", "true"), sidecar("proxy")), containers(preStop(ctr("app"), "sleep", "3"), ctr("b")))
	deleted := pod.DeepCopy()
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, grace(30)
	old, edited := testPod(static), testPod(static, func(p *v1.Pod) { p.UID = "9f0c2c1e-1111-4222-8333-444455556666" })
	running := func(uid types.UID, names ...string) func(*node) error {
		return func(n *node) error { return n.runs(uid, names...) }
	}
	return map[string]plot{
		"start": {then: []*v1.Pod{pod}, over: running(podUID, "proxy", "app", "b")},
		"crash of containers": {first: []*v1.Pod{pod}, then: []*v1.Pod{pod}, upset: func(n *node) {
			n.exit("app", 1)
			n.exit("proxy", 1)
		}, over: running(podUID, "proxy", "app", "b")},
		"end":     {first: []*v1.Pod{pod}, then: []*v1.Pod{deleted}, over: func(n *node) error { return n.nothingOf(podUID) }},
		"removal": {first: []*v1.Pod{pod}, over: func(n *node) error { return n.nothingOf(podUID) }},
		"sandbox lost": {first: []*v1.Pod{pod}, then: []*v1.Pod{pod}, upset: func(n *node) {
			n.Must(n.EditSandbox(n.status().LatestSandbox().ID, func(s *runtimeapi.PodSandboxStatus) { s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY }))
		}, over: running(podUID, "proxy", "app", "b")},
		"static pod edited": {first: []*v1.Pod{old}, then: []*v1.Pod{edited}, over: func(n *node) error {
			return errors.Join(n.nothingOf(podUID), n.runs(edited.UID, "app"))
		}},
	}
}

// static makes a pod one of the node's own.
func static(p *v1.Pod) {
	p.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
}

// runs returns what keeps a pod from running as it should.
func (n *node) runs(uid types.UID, names ...string) error {
	status, err := n.Reader().PodStatus(n.Context(), uid, nil)
	if err != nil {
		return err
	}
	for _, name := range names {
		if c := status.Latest(name); c == nil || c.State != runtime.ContainerRunning {
			return fmt.Errorf("%s does not run", name)
		}
	}
	ready := 0
	for _, s := range status.Sandboxes {
		if s.State == runtime.SandboxReady {
			ready++
		}
	}
	if ready != 1 {
		return fmt.Errorf("%d sandboxes are ready", ready)
	}
	return nil
}

// nothingOf returns what of a pod is left that may run.
func (n *node) nothingOf(uid types.UID) error {
	status, err := n.Reader().PodStatus(n.Context(), uid, nil)
	if err != nil {
		return err
	}
	for _, c := range status.Containers {
		if c.Live() {
			return fmt.Errorf("%s is %v", c.Name, c.State)
		}
	}
	for _, s := range status.Sandboxes {
		if s.State == runtime.SandboxReady {
			return fmt.Errorf("sandbox %d is ready", s.Attempt)
		}
	}
	return nil
}

// F14: the agent, including its workers, is stopped after its k-th call, for every k,
// and another one continues with the runtime's state.
func TestF14_CrashOfTheWorkersAfterEveryCall(t *testing.T) {
	all := plots()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := all[name]
			first, step := crashPoints(i)
			for k := first; ; k += step {
				crashed := false
				bubble(t, func(t *testing.T, n *node) { crashed = n.crashWorkers(p, k) })
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

// crashWorkers plays a plot with a crash after call k, and reports whether there
// were that many.
func (n *node) crashWorkers(p plot, k int) bool {
	n.Helper()
	c := n.hire()
	n.watch()
	if len(p.first) > 0 {
		n.play(c, p.first, func(n *node) error { return n.runs(p.first[0].UID, "app") })
		time.Sleep(30 * time.Second) // all remaining work is done
	}
	if p.upset != nil {
		p.upset(n)
	}
	asked := len(n.Journal())
	conn := n.conn
	gone := make(chan struct{})
	c.crashAfter(k, func() {
		close(gone)
		conn.Close()
	})
	n.work(c, p, gone)
	c.dismiss()
	synctest.Wait() // the last call may have been given up
	select {
	case <-gone:
	default:
		return false
	}
	n.restart()
	c = n.hire()
	n.play(c, p.then, p.over)
	time.Sleep(time.Minute)
	c.dismiss()
	if err := p.over(n); err != nil {
		n.Errorf("after all that: %v", err)
	}
	n.checkCrash(p, asked)
	if n.Failed() {
		n.Logf("the calls were:\n%v", n.Journal())
	}
	return true
}

// work runs the workers until the desired state is reached, or until they end.
func (n *node) work(c *crew, p plot, gone <-chan struct{}) {
	for range 180 {
		c.housekeep(p.then)
		select {
		case <-gone:
			return
		case <-time.After(time.Second):
		}
		if c.look(func() error { return p.over(n) }) == nil {
			return
		}
	}
}

// play runs the workers until the wanted pods run.
func (n *node) play(c *crew, wanted []*v1.Pod, over func(*node) error) {
	n.Helper()
	var err error
	for range 180 {
		c.housekeep(wanted)
		time.Sleep(time.Second)
		if err = c.look(func() error { return over(n) }); err == nil {
			return
		}
	}
	n.Errorf("not within three minutes: %v", err)
}

// checkCrash checks the rules for all calls.
func (n *node) checkCrash(p plot, asked int) {
	n.Helper()
	wanted := map[types.UID]bool{}
	for _, pod := range p.then {
		n.checkJournal(pod)
		wanted[pod.UID] = pod.DeletionTimestamp == nil
	}
	made := []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer}
	stopped := 0
	for i, c := range n.Journal() {
		if i >= asked && !wanted[types.UID(c.PodUID)] && c.PodUID != "" && slices.Contains(made, c.Method) {
			n.Errorf("W1: %v, and the pod is to end", c)
		}
		if c.Method == critest.StartContainer && c.PodUID != podUID {
			for _, before := range n.Journal()[i:].Pod(podUID).Of(critest.StopContainer) {
				n.Errorf("M1: %v, after its successor was started", before)
			}
		}
		if c.Method == critest.StopPodSandbox && c.Err == nil {
			stopped++
		}
	}
	if len(p.first) > 0 && len(wanted) == 0 && stopped == 0 {
		n.Error("S6: no sandbox was stopped")
	}
}
