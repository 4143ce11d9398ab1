package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// A Spec describes a node.
type Spec struct {
	// Name is the node's name. Required.
	Name string
	// Labels and Taints are set when the Node object is created.
	Labels map[string]string
	Taints []v1.Taint
	// Capacity is the capacity for pods. Default, for each missing resource: 4 CPUs, 16 GiB of memory, 100 GiB of ephemeral
	// storage and 110 pods.
	Capacity v1.ResourceList
}

func (s Spec) capacity() v1.ResourceList {
	all := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	maps.Copy(all, s.Capacity)
	return all
}

// A Node is a machine with a runtime in memory, and a sequence of agents, one after the other. Its methods may be
// called concurrently.
type Node struct {
	Spec
	// Runtime outlives the agent.
	Runtime *critest.Runtime
	fleet   *Fleet
	index   int
	ip      netip.Addr
	dir     string

	// startMu is held while the agent starts or ends.
	startMu sync.Mutex
	mu      sync.Mutex
	// current is the current run, nil if the agent does not run.
	current *agentRun
	// partition is nil while the node is connected and has observed all changes.
	partition *partition
}

func (f *Fleet) newNode(s Spec, index int) (*Node, error) {
	if s.Name == "" {
		return nil, errors.New("fleet: Spec.Name is missing")
	}
	n := &Node{Spec: s, fleet: f, index: index, ip: f.config.Address, dir: filepath.Join(f.config.Dir, s.Name)}
	if !n.ip.IsValid() {
		n.ip = addressOf(index)
	}
	if err := os.MkdirAll(n.root(), 0o700); err != nil {
		return nil, fmt.Errorf("fleet: node %s: %w", s.Name, err)
	}
	c := f.config.Runtime
	c.Dir, c.PodCIDRs = n.dir, []netip.Prefix{podsOf(index)}
	c.ServeUnknown = true // the pods in a cluster name programs of their images, which a node in memory does not have
	var err error
	n.Runtime, err = critest.New(c)
	return n, err
}

func (n *Node) root() string { return filepath.Join(n.dir, "root") }
func (n *Node) logs() string { return filepath.Join(n.dir, "logs") }

func (n *Node) currentRun() *agentRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

// running returns the current run, or an error if the agent does not run.
func (n *Node) running() (*agentRun, error) {
	if r := n.currentRun(); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("the agent of node %s does not run", n.Name)
}

func (n *Node) setRun(r *agentRun) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current = r
}

// Start starts the agent. It does nothing if the agent runs.
func (n *Node) Start() error {
	n.startMu.Lock()
	defer n.startMu.Unlock()
	if n.currentRun() != nil {
		return nil
	}
	if n.fleet.Node(n.Name) != n {
		return fmt.Errorf("fleet: node %q was removed", n.Name)
	}
	r, err := n.startAgent()
	if err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	n.setRun(r)
	return nil
}

// Kill ends the agent as SIGKILL does: the agent makes no further call, request or write, and cleans up nothing. The
// containers keep running. Kill does nothing if the agent does not run.
func (n *Node) Kill() {
	n.startMu.Lock()
	defer n.startMu.Unlock()
	if r := n.currentRun(); r != nil {
		n.setRun(nil)
		if err := r.AgentRun.Kill(); err != nil {
			n.fleet.config.Log.Error(err, "The agent was killed, and may have written more", "node", n.Name)
		}
	}
}

// stop ends the agent gracefully. Unlike Kill, it need not restore files.
func (n *Node) stop() {
	n.startMu.Lock()
	defer n.startMu.Unlock()
	if r := n.currentRun(); r != nil {
		n.setRun(nil)
		r.Stop()
	}
}

// PowerOff ends the agent and all containers at once.
func (n *Node) PowerOff() error {
	n.Kill()
	return n.Runtime.Restart(faults.Restart{Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped})
}

// Explain returns the agent's explanation of a pod's state.
func (n *Node) Explain(pod *v1.Pod) string {
	r, err := n.running()
	if err != nil {
		return err.Error()
	}
	return r.agent.Explain(pod.UID)
}

// Exec runs a command in a container in a pod and returns what it prints.
func (n *Node) Exec(ctx context.Context, containerID string, command ...string) ([]byte, error) {
	r, err := n.running()
	if err != nil {
		return nil, err
	}
	answer, err := r.client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: containerID, Cmd: command})
	if err != nil {
		return nil, err
	}
	if answer.ExitCode != 0 {
		err = fmt.Errorf("%q ended with exit code %d: %s", command, answer.ExitCode, answer.Stderr)
	}
	return answer.Stdout, err
}

// Containers returns the current IDs of a pod's containers, by name.
func (n *Node) Containers(ctx context.Context, uid types.UID) (map[string]string, error) {
	r, err := n.running()
	if err != nil {
		return nil, err
	}
	list, err := r.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(uid)},
	}})
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, c := range list.Containers {
		ids[c.Metadata.GetName()] = c.Id
	}
	return ids, nil
}
