package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// keptCgroup is the cgroup of one pod, which outlives agents. Each change is compared
// with the resources of the pod's containers at that moment.
type keptCgroup struct {
	n    *node
	has  *cgroup.Resources
	fail func() bool
}

func (c *keptCgroup) EnsureCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	return c.set(pod, func(_, next cgroup.Resources) cgroup.Resources { return next })
}

func (c *keptCgroup) RaiseCgroup(_ context.Context, pod *v1.Pod) (string, error) {
	return c.set(pod, cgroup.Larger)
}

func (c *keptCgroup) RemovePod(context.Context, types.UID) error { return nil }

func (*keptCgroup) PodsCgroup() string { return "" }

func (c *keptCgroup) set(pod *v1.Pod, choose func(last, next cgroup.Resources) cgroup.Resources) (string, error) {
	next, err := cgroup.ResourceConfigForPod(cgroup.Input{Pod: pod})
	if err != nil || c.fail() {
		return "", errors.Join(err, errBroken)
	}
	if c.has != nil {
		next = choose(*c.has, next)
	}
	c.has = &next
	c.n.checkLimits(c, "the cgroup was set")
	return "/pods", nil
}

// limitsOf are the quota and the memory limit that each container was last given, by ID. 0
// is none.
func (n *node) limitsOf() map[string][2]int64 {
	limits := map[string][2]int64{}
	for _, call := range n.Journal().Of(critest.CreateContainer, critest.UpdateContainerResources) {
		if call.Err != nil {
			continue
		}
		id, r := "", (*runtimeapi.LinuxContainerResources)(nil)
		switch q := call.Request().(type) {
		case *runtimeapi.CreateContainerRequest:
			resp, ok := call.Response().(*runtimeapi.CreateContainerResponse)
			if !ok {
				continue
			}
			id, r = resp.GetContainerId(), q.GetConfig().GetLinux().GetResources()
		case *runtimeapi.UpdateContainerResourcesRequest:
			id, r = q.GetContainerId(), q.GetLinux()
		}
		limits[id] = [2]int64{max(r.GetCpuQuota(), 0), max(r.GetMemoryLimitInBytes(), 0)}
	}
	return limits
}

// checkLimits checks that each container fits into the pod's cgroup.
func (n *node) checkLimits(c *keptCgroup, when string) {
	n.Helper()
	for id, has := range n.limitsOf() {
		for i, of := range []*int64{c.has.CPUQuota, c.has.Memory} {
			if of != nil && *of > 0 && (has[i] == 0 || has[i] > *of) {
				n.Errorf("%s: container %s has %v and its pod quota %v, memory %v", when, id, has, amount(c.has.CPUQuota), amount(c.has.Memory))
			}
		}
	}
}

func amount(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// randomSize gives the containers of a pod random limits, now and then none. Each uses 1 MiB.
func randomSize(r *rand.Rand, least int) *v1.Pod {
	pod := testPod(containers(ctr("app"), ctr("beside"), ctr("third")))
	for i := range pod.Spec.Containers {
		limits, requests := v1.ResourceList{}, v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")}
		if r.IntN(8) > 0 {
			limits[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(50*(1+r.IntN(30))), resource.DecimalSI)
		}
		if r.IntN(8) > 0 {
			limits[v1.ResourceMemory] = *resource.NewQuantity(int64(least+r.IntN(20))<<19, resource.BinarySI)
		}
		requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(50*(1+r.IntN(35))), resource.DecimalSI)
		pod.Spec.Containers[i].Resources = v1.ResourceRequirements{Limits: limits, Requests: requests}
	}
	return pod
}

// For any sequence of requests, with failing calls and cgroups, and
// an agent that is killed at any call: the containers always fit into the pod's cgroup, none of
// them restarts, the allocations never exceed the node's resources, and without failures all containers get their
// allocations.
func TestC10_RandomResizes(t *testing.T) {
	seeds := 20
	if raceDetector || testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		dir, records := t.TempDir(), t.TempDir()
		bubble(t, func(t *testing.T, n *node) {
			trouble := false
			kept := &keptCgroup{n: n, fail: func() bool { return trouble && r.IntN(6) == 0 }}
			restart := func() {
				n.restart(allocating(t, dir), recorded(records), func(c *syncpod.Config) { c.Extensions.Cgroups = kept })
			}
			restart()
			pod := randomSize(r, 2)
			n.settle(pod, time.Minute)
			made := n.Journal().Count(critest.CreateContainer)
			for range 12 {
				pod, trouble = randomSize(r, 1), true
				if r.IntN(2) == 0 {
					n.Fault(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources}, Times: 1 + r.IntN(2), Err: errBroken})
				}
				n.crashWhile(pod, 1+r.IntN(12), restart)
				if t.Failed() {
					return
				}
			}
			pod, trouble = randomSize(r, 2), false
			n.rest(pod)
			n.checkLimits(kept, "in peace")
			if got := n.Journal().Count(critest.CreateContainer); got != made {
				t.Errorf("%d containers were made, want %d", got, made)
			}
			n.checkAllocatedInForce(t, pod, dir)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// crashWhile works on a pod for a while. The agent may be killed after one of its calls; then
// another one continues.
func (n *node) crashWhile(pod *v1.Pod, k int, restart func()) {
	ctx, cancel := context.WithCancel(n.Context())
	defer cancel()
	conn, armed := n.conn, true
	n.CrashAfter(k, func() {
		if armed {
			cancel()
			conn.Close()
		}
	})
	defer func() { armed = false }()
	for range 5 {
		_, _ = n.SyncPod(ctx, pod, nil)
		synctest.Wait()
		if ctx.Err() != nil {
			restart()
			return
		}
		time.Sleep(time.Second)
	}
}

// rest works on a pod until no further sync is requested.
func (n *node) rest(pod *v1.Pod) {
	n.Helper()
	for range 100 {
		r, err := n.SyncPod(n.Context(), pod, nil)
		synctest.Wait()
		switch {
		case !r.NextTry.IsZero() && !n.isDeferred():
			time.Sleep(time.Until(r.NextTry))
		case err == nil && r.Plan.NoOp():
			return
		default:
			time.Sleep(time.Second)
		}
	}
	n.Error("the pod does not come to rest")
}

func (n *node) isDeferred() bool {
	return slices.ContainsFunc(n.report.last().Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodResizePending })
}

// checkAllocatedInForce compares the resources of the running containers with the allocation in the files.
func (n *node) checkAllocatedInForce(t *testing.T, pod *v1.Pod, dir string) {
	n.Helper()
	var c syncpod.Config
	allocating(t, dir)(&c)
	allocated := c.Extensions.Allocations.Allocated(pod)
	if total := sumCPU(allocated); total > 4000 && total > sumCPU(pod) {
		n.Errorf("%dm are allocated", total)
	}
	limits := n.limitsOf()
	for i := range allocated.Spec.Containers {
		want := &allocated.Spec.Containers[i]
		now := n.current(want.Name)
		got := limits[now.ID.ID]
		memory := want.Resources.Limits.Memory().Value()
		if quota := want.Resources.Limits.Cpu().MilliValue() * 100; got[0] != quota || got[1] != memory {
			n.Errorf("%s has %v, want quota %d, memory %d", want.Name, got, quota, memory)
		}
	}
}

func sumCPU(pod *v1.Pod) (milli int64) {
	for i := range pod.Spec.Containers {
		milli += pod.Spec.Containers[i].Resources.Requests.Cpu().MilliValue()
	}
	return milli
}
