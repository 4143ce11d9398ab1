package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
)

// crowd returns pods that are alike.
func crowd(n int) (pods []*v1.Pod) {
	for i := range n {
		pods = append(pods, testPod(func(p *v1.Pod) {
			p.Name = fmt.Sprint("pod-", i)
			p.UID = types.UID(fmt.Sprint("uid-", i))
		}))
	}
	return pods
}

// syncAll syncs pods all at once, and returns what each took.
func (n *node) syncAll(ctx context.Context, pods []*v1.Pod) (took []time.Duration, errs []error) {
	took, errs = make([]time.Duration, len(pods)), make([]error, len(pods))
	began := time.Now()
	var group sync.WaitGroup
	for i, pod := range pods {
		group.Go(func() {
			_, errs[i] = n.SyncPod(ctx, pod, &runtime.PodStatus{UID: pod.UID})
			took[i] = time.Since(began)
		})
	}
	group.Wait()
	return took, errs
}

func slow(method critest.Method, d time.Duration) func(*critest.Config) {
	return func(c *critest.Config) { c.Latency = map[critest.Method]time.Duration{method: d} }
}

// Sandboxes and containers are started so many at once. None waits here until it
// is looked whether a processor is idle.
func TestMaxStarts(t *testing.T) {
	const step = 10 * time.Millisecond
	for _, method := range []critest.Method{critest.RunPodSandbox, critest.CreateContainer, critest.StartContainer} {
		for limit, want := range map[int]time.Duration{1: 4 * step, 2: 2 * step, -1: step, 0: 2 * step} {
			t.Run(fmt.Sprint(method, limit), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *node) {
					pods := 4
					if limit == 0 {
						pods = 2 * (goruntime.NumCPU() + 1)
					}
					n.restart(func(c *syncpod.Config) { c.Limits.MaxParallelStarts = limit })
					began := time.Now()
					_, errs := n.syncAll(t.Context(), crowd(pods))
					must(t, errors.Join(errs...))
					if took := time.Since(began); took != want {
						t.Errorf("%d pods took %v, want %v", pods, took, want)
					}
				}, slow(method, step))
			})
		}
	}
}

// Pods that are closest to running come first: a pod with a sandbox does not wait for
// pods without one.
func TestContainersGoBeforeSandboxes(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Limits.MaxParallelStarts = 1 })
		pods := crowd(3)
		busy, without, with := pods[0], pods[1], pods[2]
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer, PodUID: string(with.UID)}, Err: errBroken})
		n.SyncPod(t.Context(), with, nil) // has its sandbox now
		time.Sleep(time.Minute)
		before := len(n.Journal())
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox, PodUID: string(busy.UID)}, Delay: 10 * time.Millisecond})
		var group sync.WaitGroup
		for _, pod := range []*v1.Pod{busy, without, with} {
			group.Go(func() { n.SyncPod(t.Context(), pod, nil) })
			time.Sleep(time.Millisecond)
		}
		group.Wait()
		calls := n.Journal().After(before)
		created := slices.IndexFunc(calls, func(c critest.Call) bool { return c.Method == critest.CreateContainer && c.PodUID == string(with.UID) })
		sandbox := slices.IndexFunc(calls, func(c critest.Call) bool { return c.Method == critest.RunPodSandbox && c.PodUID == string(without.UID) })
		if created < 0 || sandbox < 0 || created > sandbox {
			t.Errorf("calls, want at least created 0 and at least sandbox 0 and at most created %v\n%v", sandbox, calls)
		}
	})
}

// However few may start at once, pods whose starts hang hold up no others for long.
func TestP1_StartsThatHangHoldUpNoOthers(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Limits.MaxParallelStarts = 1 })
		pods := crowd(4)
		for _, pod := range pods[:3] {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox, PodUID: string(pod.UID)}, When: faults.Midway, Hang: &faults.Gate{}})
		}
		ctx := giveUp(t, time.Minute)
		took, errs := n.syncAll(ctx, pods)
		if errs[3] != nil || took[3] > 4*time.Second {
			t.Errorf("the pod that does not hang: %v after %v", errs[3], took[3])
		}
	})
}

// A pod whose sync is cancelled in the queue leaves no trace: no runtime call was
// made, and the next attempt does not wait.
func TestCancelledWhileQueued(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Limits.MaxParallelStarts = 1 })
		pods := crowd(2)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Delay: 40 * time.Millisecond})
		go n.SyncPod(t.Context(), pods[0], &runtime.PodStatus{UID: pods[0].UID})
		time.Sleep(time.Millisecond)
		ctx := giveUp(t, 10*time.Millisecond)
		if _, err := n.SyncPod(ctx, pods[1], &runtime.PodStatus{UID: pods[1].UID}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
		for _, c := range n.Journal() {
			if c.PodUID == string(pods[1].UID) {
				t.Errorf("call %v, want none for pod %v", c, string(pods[1].UID))
			}
		}
		time.Sleep(time.Second)
		_, err := n.SyncPod(t.Context(), pods[1], &runtime.PodStatus{UID: pods[1].UID})
		must(t, err)
	})
}

// G1: nor does it keep an image.
func TestG1_ImageOfAStartThatWasCancelledWhileQueued(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.restart(func(c *syncpod.Config) { c.Limits.MaxParallelStarts = 1 })
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Delay: 40 * time.Millisecond})
		ctx := giveUp(t, 10*time.Millisecond)
		r, err := n.SyncPod(ctx, testPod(containers(ctr("a"), ctr("b"))), nil)
		if !errors.Is(err, syncpod.ErrCreateContainer) || len(r.Failed) != 1 {
			t.Errorf("error %v, failed %v", err, r.Failed)
		}
		for _, name := range []string{"a", "b"} {
			if n.images.Leases().Held(&runtimeapi.Image{RepoTags: []string{"registry.test/" + name + ":1"}}) {
				t.Errorf("the image of %s is still held", name)
			}
		}
	})
}
