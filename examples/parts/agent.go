package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/probe"
	"github.com/podsync/podsync/syncpod/store"
)

// A config is what an agent needs. Report gets each status.
type config struct {
	client                  *cri.Client
	runtimeName, root, logs string
	node                    container.Node
	report                  func(types.UID, v1.PodStatus)
}

// An agent keeps pods running. Its loop is its own; all it knows of a kubelet comes from packages that can be taken alone.
type agent struct {
	config
	reader    *reader.Reader
	watcher   *pleg.Watcher
	sandboxes *run.Runner
	images    *image.Manager
	hooks     *handler.Runner
	probes    *probe.Manager
	stopper   *lifecycle.Stopper
	starts    *start.Runner
	store     *store.Files
	workers   *podworkers.Workers
	wake      chan struct{}

	mu      sync.Mutex
	desired map[types.UID]*v1.Pod
	working map[types.UID]worked // the pods that the workers have
	known   map[types.UID]*podState
}

// worked is a pod of the workers: as it was desired, and as they have it. If a stopping pod is desired again, they have the
// new pod, which starts after the old one has been removed.
type worked struct{ desired, pod *v1.Pod }

// newAgent connects the parts. It calls nothing.
func newAgent(c config) (a *agent, err error) {
	a = &agent{config: c, wake: make(chan struct{}, 1), desired: map[types.UID]*v1.Pod{}, working: map[types.UID]worked{}, known: map[types.UID]*podState{}}
	var errs [9]error
	a.reader, errs[0] = reader.New(reader.Config{Runtime: c.client, RuntimeName: c.runtimeName})
	a.sandboxes, errs[1] = run.New(run.Config{Runtime: c.client})
	a.images, errs[2] = image.New(image.Config{Settings: image.Settings{Runtime: c.client}, Dir: filepath.Join(c.root, "images")})
	a.hooks, errs[3] = handler.New(handler.Config{Exec: c.client})
	a.probes, errs[4] = probe.New(probe.Config{Exec: c.client})
	a.store, errs[5] = store.NewFiles(filepath.Join(c.root, "statuses"))
	a.stopper, errs[8] = lifecycle.New(lifecycle.Config{Runtime: c.client, Sandboxes: a.sandboxes, Hooks: a.hooks})
	a.starts, errs[7] = start.New(start.Config{Runtime: c.client, Disposer: a.stopper})
	if a.reader != nil {
		a.watcher, errs[6] = pleg.New(pleg.Config{
			Reader: a.reader, Events: c.client,
			Observed: a.observe,
			Changed: func(uid types.UID, _ *runtime.PodStatus) {
				a.sync(uid)
				a.look()
			},
			AvailableChanged: func(error) { a.look() },
			Busy:             func(uid types.UID) bool { return a.state(uid).busy.Load() > 0 },
		})
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	a.workers, err = podworkers.New(podworkers.Config{Syncer: a, Status: a.watcher, ResyncInterval: 5 * time.Minute})
	return a, err
}

// run keeps the pods running until ctx ends, and leaves them running then.
func (a *agent) run(ctx context.Context) error {
	stored, err := a.store.Load(ctx)
	if err != nil {
		return err
	}
	for _, s := range stored {
		a.state(s.UID).last = &s.Status
	}
	var parts sync.WaitGroup
	ends := make(chan error, 3)
	running, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		a.sandboxes.CancelPending()
		parts.Wait()
		a.sandboxes.Wait()
	}()
	parts.Go(func() { ends <- a.watcher.Run(running) })
	parts.Go(func() { ends <- a.workers.Run(running) })
	parts.Go(func() { ends <- a.probes.Run(running, a.sync) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ends:
			return err
		case <-a.wake:
			a.reconcile()
		}
	}
}

// set replaces the pods that should run.
func (a *agent) set(pods []*v1.Pod) {
	a.mu.Lock()
	a.desired = map[types.UID]*v1.Pod{}
	for _, pod := range pods {
		a.desired[pod.UID] = pod
	}
	a.mu.Unlock()
	a.look()
}

// look makes the loop compare the pods again.
func (a *agent) look() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// sync makes the workers sync a pod.
func (a *agent) sync(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.working[uid]; w.pod != nil {
		a.update(podworkers.Sync, uid, w)
	}
}

// reconcile compares the desired pods with those of the workers and of the runtime. The workers do the rest.
func (a *agent) reconcile() {
	if _, err := a.watcher.Available(); err != nil {
		return // a pod of an earlier agent would look new
	}
	onNode := map[types.UID]pleg.Pod{}
	for _, p := range a.watcher.Pods() {
		onNode[p.UID] = p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, w := range a.working {
		switch want := a.desired[uid]; {
		case w.desired == nil && want != nil: // the workers keep the new pod until the old one is forgotten
			a.update(podworkers.Create, uid, worked{desired: want, pod: want})
		case w.desired == nil: // it stops
		case want == nil:
			a.update(podworkers.Kill, uid, worked{pod: deleted(w.pod)})
		case want != w.desired:
			a.update(podworkers.Changed, uid, worked{desired: want, pod: a.withStatus(want)})
		}
	}
	for uid, pod := range a.desired {
		if a.working[uid].pod == nil && !a.workers.State(uid).Known {
			a.update(podworkers.Create, uid, worked{desired: pod, pod: a.withStatus(pod)})
		}
	}
	for uid, p := range onNode {
		pod, state := podworkers.RuntimePod{UID: uid, Name: p.Name, Namespace: p.Namespace}, a.workers.State(uid)
		orphan := !state.Known && a.desired[uid] == nil
		switch {
		case p.Running && (orphan || state.Terminated && p.ObservedAt.After(a.known[uid].stoppedAt)):
			_ = a.workers.KillRuntimePod(pod)
		case orphan:
			a.workers.RemoveOrphan(pod)
		}
	}
	a.workers.SyncKnownPods(slices.Collect(maps.Keys(a.desired)))
	for uid := range a.known {
		if _, exists := onNode[uid]; !exists && a.desired[uid] == nil && a.working[uid].pod == nil && !a.workers.State(uid).Known {
			a.workers.RemoveOrphan(podworkers.RuntimePod{UID: uid}) // only records are left
		}
	}
}

// update passes a pod to the workers. It fails only at the end of the agent.
func (a *agent) update(t podworkers.UpdateType, uid types.UID, w worked) {
	a.working[uid] = w
	_ = a.workers.UpdatePod(podworkers.Update{Type: t, Pod: w.pod})
}

// withStatus returns the pod with its last status, which an earlier agent may have stored: a finished pod does not run again.
func (a *agent) withStatus(pod *v1.Pod) *v1.Pod {
	copied := *pod
	if state := a.known[pod.UID]; state != nil {
		state.lock.Lock()
		defer state.lock.Unlock()
		if state.last != nil {
			copied.Status = *state.last
		}
	}
	return &copied
}

// deleted returns the pod marked as deleted, so that it ends as Succeeded or Failed.
func deleted(pod *v1.Pod) *v1.Pod {
	copied := *pod
	copied.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return &copied
}

// makeLogs creates the directory of a container's logs, which runtimes expect.
func makeLogs(dir, container string) error { return os.MkdirAll(filepath.Join(dir, container), 0o755) }
