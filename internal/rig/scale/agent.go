package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/pprof"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// settleTime is the maximum pause after all pods run, before measurements begin: the next list of all pods
// and other consequences of the starts have ended by then.
const settleTime = 5 * time.Second

// agent is a node agent in this process.
type agent struct {
	task
	loop   *nodeagent.Agent
	client *cri.Client
	pods   *source.Push
	count  *count
	ended  chan error
}

// agentOf measures the part of the first agent or the second.
func agentOf(ctx context.Context, t task, as string) (m measures, err error) {
	a := &agent{task: t, pods: source.NewPush(), count: newCount(t.Pods), ended: make(chan error, 1)}
	work := a.startAndRest
	if as == asSecond {
		work = a.adoptAndStop
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		pprof.StopCPUProfile() // also of a part that was cut short
		cancel()
		if a.loop != nil {
			err = errors.Join(err, <-a.ended, a.client.Close())
		}
	}()
	err = work(ctx, &m)
	return m, err
}

// run connects to the runtime and starts the agent.
func (a *agent) run(ctx context.Context) (err error) {
	if a.client, err = cri.Dial(ctx, cri.Config{Endpoint: "unix://" + a.socket()}); err != nil {
		return err
	}
	a.loop, err = nodeagent.New(nodeagent.Config{
		Client: a.client, Root: filepath.Join(a.Dir, "root"), Sources: []source.Source{a.pods},
		NoEviction: true, NoImageGC: true, // this machine's disk is not measured
		Sync: syncpod.Config{Sink: a.count, Node: syncpod.Node{LogsRoot: filepath.Join(a.Dir, "logs")}},
	})
	if err != nil {
		return errors.Join(err, a.client.Close())
	}
	go func() { a.ended <- a.loop.Run(ctx) }()
	return nil
}

// startAndRest is the first agent's part: it starts all pods, and has nothing to do
// for a while.
func (a *agent) startAndRest(ctx context.Context, m *measures) error {
	if err := a.run(ctx); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	before := heap()
	end, err := a.watch("start")
	if err != nil {
		return err
	}
	if err := a.pods.Set(manyPods(a.Pods)...); err != nil {
		return err
	}
	if err := a.count.await(ctx, "running", func() error { return nil }); err != nil {
		return err
	}
	if m.Start, m.Started, err = end(); err != nil {
		return err
	}
	if err := pause(ctx, min(settleTime, a.Idle)); err != nil {
		return err
	}
	m.Heap = heap() - before
	if end, err = a.watch("idle"); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "idle for %v\n", a.Idle)
	if err := pause(ctx, a.Idle); err != nil {
		return err
	}
	m.Goroutines = goruntime.NumGoroutine()
	if m.Idle, m.Idled, err = end(); err != nil {
		return err
	}
	m.Resident, err = resident()
	return errors.Join(err, a.saveHeap())
}

// adoptAndStop is the second agent's part: it takes over the pods that run, and stops
// them.
func (a *agent) adoptAndStop(ctx context.Context, m *measures) error {
	if err := a.pods.Set(manyPods(a.Pods)...); err != nil {
		return err
	}
	end, err := a.watch("adopt")
	if err != nil {
		return err
	}
	if err := a.run(ctx); err != nil {
		return err
	}
	if err := a.count.await(ctx, "adopted", a.unlistable); err != nil {
		return err
	}
	if m.Adopt, m.Adopted, err = end(); err != nil {
		return err
	}
	if err := pause(ctx, min(settleTime, a.Idle)); err != nil {
		return err
	}
	if end, err = a.watch("stop"); err != nil {
		return err
	}
	if err := a.pods.Set(); err != nil {
		return err
	}
	if err := a.awaitEnd(ctx); err != nil {
		return err
	}
	if m.Stop, m.Stopped, err = end(); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "stop took %.1f ms/pod of CPU\n", m.Stopped.CPU.Seconds()*1000/float64(a.Pods))
	return nil
}

// unlistable returns an error if the list of all pods is longer than a CRI message. A
// running agent then relies on events; an agent that starts finds no pod.
func (a *agent) unlistable() error {
	if err := a.loop.Health().Runtime.ListErr; errors.Is(err, cri.ErrExhausted) {
		return err
	}
	return nil
}

// awaitEnd waits until the pods are forgotten and the runtime has nothing left.
func (a *agent) awaitEnd(ctx context.Context) error {
	for since := time.Now(); ; {
		began := time.Now()
		left := len(a.loop.Pods())
		if left == 0 {
			list, err := a.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
			if err != nil || len(list.GetItems()) == 0 {
				return err
			}
		}
		if time.Since(since) > progress {
			fmt.Fprintf(os.Stderr, "%d of %d pods are left\n", left, a.Pods)
			since = time.Now()
		}
		// The pause keeps the CPU share of these calls small, however long they take.
		if err := pause(ctx, max(50*time.Millisecond, 50*time.Since(began))); err != nil {
			return err
		}
	}
}

// manyPods returns pods of one container.
func manyPods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("pod-%05d", i)
		pods[i] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "scale", UID: types.UID(fmt.Sprintf("5ca1e000-0000-4000-8000-%012d", i)),
				Labels: map[string]string{"app": name}, CreationTimestamp: metav1.Unix(1_700_000_000, 0),
			},
			Spec: v1.PodSpec{Containers: []v1.Container{{
				Name: "app", Image: "registry.test/app:1", Command: []string{"sh", "-c", "trap exit TERM; sleep 1000000 & wait"},
			}}},
		}
	}
	return pods
}

// pause waits, and returns the error of ctx if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
