package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
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
	"github.com/podsync/podsync/syncpod/memory/keeper"
	"github.com/podsync/podsync/syncpod/probe"
	"github.com/podsync/podsync/syncpod/status"
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
	starter   *start.Starter
	memory    *keeper.Keeper
	store     *store.Files
	workers   *podworkers.Workers
	desired   *podworkers.Desired

	mu   sync.Mutex
	pods map[types.UID]*podState
}

// podState is what the agent knows of a pod besides its memory.
type podState struct {
	busy atomic.Int32 // works in flight
	lock sync.Mutex
	last *v1.PodStatus // the last status that was reported
}

// newAgent connects the parts. It calls nothing.
func newAgent(c config) (a *agent, err error) {
	a = &agent{config: c, pods: map[types.UID]*podState{}}
	var errs [8]error
	a.reader, errs[0] = reader.New(reader.Config{Runtime: c.client, RuntimeName: c.runtimeName})
	a.sandboxes, errs[1] = run.New(run.Config{Runtime: c.client})
	a.images, errs[2] = image.New(image.Config{Settings: image.Settings{Runtime: c.client}, Dir: filepath.Join(c.root, "images")})
	a.hooks, errs[3] = handler.New(handler.Config{Exec: c.client})
	a.probes, errs[4] = probe.New(probe.Config{Exec: c.client})
	a.store, errs[5] = store.NewFiles(filepath.Join(c.root, "statuses"))
	a.memory, errs[6] = keeper.New(keeper.Config{Dir: filepath.Join(c.root, "records")})
	a.stopper, errs[7] = lifecycle.New(lifecycle.Config{Runtime: c.client, Sandboxes: a.sandboxes, Hooks: a.hooks})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	a.starter, errs[0] = start.NewStarter(start.StarterConfig{
		Images: a.images, Runtime: c.client, Hooks: a.hooks, Stopper: a.stopper, RuntimeName: c.runtimeName, Node: c.node,
	})
	a.watcher, errs[1] = pleg.New(pleg.Config{
		Reader: a.reader, Events: c.client,
		Observed:         func(ctx context.Context, seen *runtime.PodStatus) { a.memory.Pod(seen.UID).Observe(ctx, seen) },
		Changed:          func(uid types.UID, _ *runtime.PodStatus) { a.desired.Changed(uid) },
		AvailableChanged: func(error) { a.desired.Look() },
		Busy:             func(uid types.UID) bool { return a.state(uid).busy.Load() > 0 },
	})
	a.workers, errs[2] = podworkers.New(podworkers.Config{Syncer: a, Status: a.watcher, ResyncInterval: 5 * time.Minute})
	a.desired, errs[3] = podworkers.NewDesired(podworkers.DesiredConfig{
		Workers: a.workers, OnNode: a.onNode, WithStatus: func(pod *v1.Pod) *v1.Pod { return status.WithReported(pod, a.state(pod.UID).status()) },
		Recorded: func() []types.UID {
			uids, _ := a.memory.Pods() // those that cannot be listed are found later
			return uids
		},
	})
	return a, errors.Join(errs[:]...)
}

// run keeps the pods running until ctx ends, and leaves them running then.
func (a *agent) run(ctx context.Context) error {
	stored, err := a.store.Load(ctx)
	if err != nil {
		return err
	}
	for _, s := range stored {
		a.memory.Pod(s.UID) // it may have no record
		a.state(s.UID).last = &s.Status
	}
	var parts sync.WaitGroup
	ends := make(chan error, 4)
	running, stop := context.WithCancel(ctx)
	parts.Go(func() { ends <- a.watcher.Run(running) })
	parts.Go(func() { ends <- a.workers.Run(running) })
	parts.Go(func() { ends <- a.probes.Run(running, a.desired.Changed) })
	parts.Go(func() { ends <- a.desired.Run(running) })
	err = <-ends
	stop()
	a.sandboxes.CancelPending()
	parts.Wait()
	a.sandboxes.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// onNode returns the runtime's pods.
func (a *agent) onNode() (pods []podworkers.NodePod, listed bool) {
	_, err := a.watcher.Available()
	for _, p := range a.watcher.Pods() {
		pods = append(pods, podworkers.NodePod{RuntimePod: podworkers.RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}, Running: p.Running, ObservedAt: p.ObservedAt})
	}
	return pods, err == nil
}

// state returns a pod's state.
func (a *agent) state(uid types.UID) *podState {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods[uid] == nil {
		a.pods[uid] = &podState{}
	}
	return a.pods[uid]
}

func (p *podState) status() *v1.PodStatus {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.last
}
