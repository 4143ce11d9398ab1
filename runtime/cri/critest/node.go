package critest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Node is a test's machine: a runtime, an agent's directories, and a sequence of runs of that agent, one after the
// other. It works with any agent whose parts end with a context. Its methods may be called concurrently.
type Node struct {
	*Runtime
	// Root is the directory for the agent's own files, and Logs is the one for container logs. They outlive each run.
	Root, Logs string

	t       TB
	startMu sync.Mutex // held while a run starts or ends
	run     *AgentRun  // nil while no agent runs
	mu      sync.Mutex // guards the maps
	reports map[types.UID]v1.PodStatus
	pods    map[types.UID]*v1.Pod
}

// NodeTB has the methods of a test that [NewNode] needs: see TB.
type NodeTB interface {
	TB
	TempDir() string
}

// NewNode starts a node for a test; the agent and the runtime end with the test. Config.Dir and Config.LogsRoot are set
// to the node's directories. In a testing/synctest bubble, call it with the bubble's T.
func NewNode(t NodeTB, cfg Config) *Node {
	t.Helper()
	dir := t.TempDir()
	n := &Node{Root: filepath.Join(dir, "root"), Logs: filepath.Join(dir, "logs"), t: t, reports: map[types.UID]v1.PodStatus{}, pods: map[types.UID]*v1.Pod{}}
	if err := os.Mkdir(n.Root, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.LogsRoot = dir, n.Logs
	var err error
	if n.Runtime, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Stop()
		logProblems(t, n.Runtime)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// Start starts the agent: run runs it until ctx ends. The test fails if the last run has not ended, and if run returns
// before ctx has ended.
func (n *Node) Start(run func(ctx context.Context, a *AgentRun) error) {
	n.t.Helper()
	n.startMu.Lock()
	defer n.startMu.Unlock()
	if n.run != nil {
		n.t.Fatal("the agent of the node runs already")
	}
	a := n.newAgentRun(n.Root, n.reported)
	n.run = a
	a.Go(func(ctx context.Context) {
		if err := run(ctx, a); ctx.Err() == nil {
			n.t.Error(fmt.Sprintf("the agent has ended: %v", err))
		}
	})
}

// Stop ends the agent gracefully. It does nothing if no agent runs.
func (n *Node) Stop() {
	n.startMu.Lock()
	defer n.startMu.Unlock()
	if n.run != nil {
		n.run.Stop()
		n.run = nil
	}
}

// Kill ends the agent as SIGKILL does: see [AgentRun.Kill]. [Runtime.CrashAfter] may call it, to kill the agent between two
// calls. It does nothing if no agent runs.
func (n *Node) Kill() {
	n.t.Helper()
	n.startMu.Lock()
	defer n.startMu.Unlock()
	if n.run == nil {
		return
	}
	if err := n.run.Kill(); err != nil {
		n.t.Error(err)
	}
	n.run = nil
}

func (n *Node) reported(pod *v1.Pod, status v1.PodStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reports[pod.UID], n.pods[pod.UID] = status, pod
}

// Status returns the status of a pod that an agent has reported last, the zero value if there is none. The caller must not
// modify it.
func (n *Node) Status(uid types.UID) v1.PodStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reports[uid]
}

// NoDoubleRuns fails the test if two processes in one container ran at the same time, or if a regular container in a
// reported pod with restartPolicy Never ran twice. Config.JournalLimit must be 0.
func (n *Node) NoDoubleRuns() {
	n.t.Helper()
	all := n.Processes()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, a := range all {
		for _, b := range all[i+1:] {
			switch {
			case a.PodUID != b.PodUID || a.Container != b.Container:
			case a.Overlaps(b):
				n.t.Error(fmt.Sprintf("container %s of pod %s ran twice at a time: from %v to %v, and from %v", a.Container, a.PodUID, a.Started, a.Ended, b.Started))
			case runsOnce(n.pods[types.UID(a.PodUID)], a.Container):
				n.t.Error(fmt.Sprintf("container %s of pod %s may run once and ran twice: at %v with exit code %d, and at %v", a.Container, a.PodUID, a.Started, a.ExitCode, b.Started))
			}
		}
	}
}

// runsOnce reports whether a container may run only once.
func runsOnce(pod *v1.Pod, container string) bool {
	return pod != nil && pod.Spec.RestartPolicy == v1.RestartPolicyNever && slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
		return c.Name == container && c.RestartPolicy == nil
	})
}
