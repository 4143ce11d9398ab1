package pinning_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/pinning"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/source"
)

// node is a machine with four CPUs, of which CPU 0 is reserved.
type node struct {
	*critest.Node
	testing.TB
	client *cri.Client
	config cpu.Config
}

func machine() cpu.Config {
	t := cpu.Topology{}
	for id := range 4 {
		t.CPUs = append(t.CPUs, cpu.CPU{ID: id, Core: id})
	}
	return cpu.Config{Policy: cpu.Static, Topology: t, ReservedCount: 1}
}

// run starts an agent for the pods.
func (n *node) run(pods ...*v1.Pod) *source.Push {
	n.Helper()
	from := source.NewPush()
	n.set(from, pods...)
	n.Start(func(ctx context.Context, run *critest.AgentRun) error {
		manager, err := pinning.New(pinning.Config{State: filepath.Join(n.Root, "pinning.json"), CPUs: n.config})
		if err != nil {
			return err
		}
		allocations, err := resize.New(resize.Config{State: filepath.Join(n.Root, "allocations"), Check: manager.Resize})
		if err != nil {
			return err
		}
		a, err := agent.New(agent.Config{
			Client: cri.NewClient(run.Conn), Root: n.Root, Sources: []source.Source{from}, NoImageGC: true, NoEviction: true, NoOOMEvents: true, NoLogRotation: true,
			Sync: syncpod.Config{
				RuntimeName: "critest", Extensions: syncpod.Extensions{CPUSets: manager, Allocations: allocations}, Node: syncpod.Node{LogsRoot: n.Logs}, Sink: syncpod.StatusSinkFunc(run.Report),
			},
		})
		if err != nil {
			return err
		}
		return a.Run(ctx)
	})
	return from
}

func (n *node) set(from *source.Push, pods ...*v1.Pod) {
	n.Helper()
	if err := from.Set(pods...); err != nil {
		n.Fatal(err)
	}
}

func inBubble(t *testing.T, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := critest.NewNode(t, critest.Config{})
		conn, err := n.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		test(&node{n, t, cri.NewClient(conn), machine()})
	})
}

// pod returns a pod that shares CPUs; owner one with exclusive CPUs.
func shares(name string) *v1.Pod { return testnode.Pod("api", name, name, testnode.Forever) }

func owner(name string) *v1.Pod {
	pod := shares(name)
	pod.Spec.Containers[0].Resources = guaranteed(name).Spec.Containers[0].Resources
	return pod
}

// want checks the CPUs of the running container of each pod, "" for none.
func (n *node) want(when string, cpus map[string]string) {
	n.Helper()
	synctest.Wait()
	resp, err := n.client.ListContainers(n.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}})
	if err != nil {
		n.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range resp.GetContainers() {
		status, err := n.client.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		if err != nil {
			n.Fatal(err)
		}
		got[c.GetLabels()[runtime.LabelPodName]] = status.GetStatus().GetResources().GetLinux().GetCpusetCpus()
	}
	if !maps.Equal(got, cpus) {
		n.Errorf("%s: pods run on the CPUs %v, want %v", when, got, cpus)
	}
}

// The containers of the shared pool move away from the CPUs of a new pod, and come back when its containers have stopped, not before;
// also if the agent restarts in between, and although one of them cannot be moved at first.
func TestSharedContainersMove(t *testing.T) {
	inBubble(t, func(n *node) {
		from := n.run(shares("a"), shares("b"))
		time.Sleep(time.Minute)
		n.want("alone", map[string]string{"a": "0-3", "b": "0-3"})
		if calls := n.Journal().Of(critest.UpdateContainerResources); len(calls) > 0 {
			t.Errorf("containers were moved for no reason: %v", calls)
		}

		refused, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources, PodUID: "a"}, Times: faults.Always, Err: status.Error(codes.Unknown, "busy")})
		if err != nil {
			n.Fatal(err)
		}
		stubborn := owner("own")
		stubborn.Spec.Containers[0].Command = []string{"sh", "-c", "trap '' TERM; sleep infinity & wait"}
		stubborn.Spec.TerminationGracePeriodSeconds = new(int64(60))
		n.set(from, shares("a"), shares("b"), stubborn, owner("late"))
		time.Sleep(5 * time.Second)
		n.want("a cannot move", map[string]string{"a": "0-3", "b": "0,3", "own": "1-2"})
		if n.Status("late").Phase != v1.PodFailed || n.Status("late").Reason != "UnexpectedAdmissionError" {
			t.Errorf("a pod without CPUs is %s, %s", n.Status("late").Phase, n.Status("late").Reason)
		}
		if n.Status("a").Phase != v1.PodRunning {
			t.Errorf("a pod that cannot move is %s", n.Status("a").Phase)
		}
		n.Kill()
		refused.Remove()
		from = n.run(shares("a"), shares("b"), stubborn)
		time.Sleep(time.Minute)
		n.want("after a restart", map[string]string{"a": "0,3", "b": "0,3", "own": "1-2"})
		if calls := n.Journal().Of(critest.UpdateContainerResources).Pod("b"); len(calls) != 1 {
			t.Errorf("a container that runs where it should was moved: %v", calls)
		}

		n.set(from, shares("a"), shares("b"), owner("next"))
		time.Sleep(30 * time.Second)
		n.want("while the owner stops", map[string]string{"a": "0,3", "b": "0,3", "own": "1-2"})
		if n.Status("next").Phase != v1.PodFailed {
			t.Errorf("CPUs of a pod that still runs were given to another one, which is %s", n.Status("next").Phase)
		}
		time.Sleep(time.Minute)
		n.want("after its stop", map[string]string{"a": "0-3", "b": "0-3"})
		n.set(from, shares("a"), shares("b"), owner("last"))
		time.Sleep(time.Minute)
		n.want("with another one", map[string]string{"a": "0,3", "b": "0,3", "last": "1-2"})
		for _, call := range n.Journal().Of(critest.CreateContainer) {
			r := call.Request().(*runtimeapi.CreateContainerRequest).GetConfig().GetLinux().GetResources()
			if own := call.Pod == "own" || call.Pod == "last"; own != (r.GetCpuQuota() == -1) {
				t.Errorf("the container of pod %s has the quota %d", call.Pod, r.GetCpuQuota())
			}
		}
	})
}

// A container whose move had no answer is moved again, although it should then run where it ran before.
func TestMoveWithoutAnswer(t *testing.T) {
	inBubble(t, func(n *node) {
		from := n.run(shares("a"), owner("first"))
		time.Sleep(time.Minute)
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.UpdateContainerResources, PodUID: "a"}, When: faults.After, Times: 1, Err: status.Error(codes.Unknown, "lost")}); err != nil {
			n.Fatal(err)
		}
		n.set(from, shares("a"))
		for end := time.Now().Add(time.Minute); len(n.Journal().Of(critest.UpdateContainerResources).Pod("a")) == 0 && time.Now().Before(end); {
			time.Sleep(100 * time.Millisecond)
		}
		n.want("without an answer", map[string]string{"a": "0-3"})
		n.set(from, shares("a"), owner("second"))
		time.Sleep(10 * time.Minute)
		n.want("with the next owner", map[string]string{"a": "0,3", "second": "1-2"})
	})
}

// A pod whose resize is refused has after a reboot what was allocated to it, and not what it asks for.
func TestRefusedResizeBeforeAReboot(t *testing.T) {
	inBubble(t, func(n *node) {
		sized := func(cpus string) *v1.Pod {
			pod := owner("a")
			for _, list := range []v1.ResourceList{pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits} {
				list[v1.ResourceCPU] = resource.MustParse(cpus)
			}
			return pod
		}
		from := n.run(sized("1500m"))
		time.Sleep(time.Minute)
		n.set(from, sized("2"))
		time.Sleep(time.Minute)
		n.want("before", map[string]string{"a": "0-3"})
		n.Kill()
		if err := n.Restart(faults.Restart{Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}); err != nil {
			n.Fatal(err)
		}
		n.run(sized("2"))
		time.Sleep(time.Minute)
		n.want("after", map[string]string{"a": "0-3"})
	})
}

// A container moves although an image of its pod is being pulled.
func TestMoveBesideAPull(t *testing.T) {
	inBubble(t, func(n *node) {
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage, Image: "registry.test/slow:1"}, Delay: 10 * time.Minute}); err != nil {
			n.Fatal(err)
		}
		pulls := shares("a")
		slow := pulls.Spec.Containers[0]
		slow.Name, slow.Image = "slow", "registry.test/slow:1"
		pulls.Spec.Containers = append(pulls.Spec.Containers, slow)
		from := n.run(pulls)
		time.Sleep(time.Minute)
		n.set(from, pulls, owner("own"))
		time.Sleep(5 * time.Second)
		n.want("during a pull", map[string]string{"a": "0,3", "own": "1-2"})
	})
}

// A pod that ran before the policy was set keeps the shared CPUs, and a new one gets exclusive CPUs.
func TestPodsOfBefore(t *testing.T) {
	inBubble(t, func(n *node) {
		n.config = cpu.Config{}
		n.run(owner("before"))
		time.Sleep(time.Minute)
		n.want("without a policy", map[string]string{"before": ""})
		n.Stop()
		n.config = machine()
		n.run(owner("before"), owner("after"))
		time.Sleep(time.Minute)
		n.want("with a policy", map[string]string{"before": "0,3", "after": "1-2"})
	})
}

// An agent is killed after its k-th call, for every k, and the next one continues: no two pods ever have a CPU alone, and in the end
// each container runs where it should.
func TestCrashAfterEveryCall(t *testing.T) {
	var crashed atomic.Bool
	crashed.Store(true)
	for k := 1; crashed.Load() && !t.Failed(); k++ {
		inBubble(t, func(n *node) {
			from := n.run(shares("a"))
			time.Sleep(time.Minute)
			crashed.Store(false)
			n.CrashAfter(k, func() {
				crashed.Store(true)
				n.Kill()
			})
			restarted := false
			for _, pods := range [][]*v1.Pod{{shares("a"), owner("own")}, {shares("a")}, {shares("a"), owner("next")}} {
				n.set(from, pods...)
				time.Sleep(time.Minute)
				if crashed.Load() && !restarted {
					from, restarted = n.run(pods...), true
					time.Sleep(time.Minute)
				}
			}
			n.want(fmt.Sprint("with a crash after call ", k), map[string]string{"a": "0,3", "next": "1-2"})
			n.alone()
		})
		if k == 1 && !crashed.Load() {
			t.Error("no call was followed by a crash")
		}
	}
}

// alone checks that no container got CPUs of its own while a container of another pod had them.
func (n *node) alone() {
	n.Helper()
	has := map[string]string{} // the pod of each container that has the CPUs
	for _, call := range n.Journal() {
		if call.Err != nil {
			continue
		}
		switch call.Method {
		case critest.CreateContainer:
			if call.Request().(*runtimeapi.CreateContainerRequest).GetConfig().GetLinux().GetResources().GetCpuQuota() != -1 {
				continue
			}
			for id, pod := range has {
				if pod != call.Pod {
					n.Errorf("pod %s got the CPUs of container %s of pod %s", call.Pod, id, pod)
				}
			}
			has[call.Response().(*runtimeapi.CreateContainerResponse).GetContainerId()] = call.Pod
		case critest.StopContainer, critest.RemoveContainer:
			delete(has, call.ContainerID)
		case critest.StopPodSandbox, critest.RemovePodSandbox:
			for id, pod := range has {
				if pod == call.Pod {
					delete(has, id)
				}
			}
		}
	}
}
