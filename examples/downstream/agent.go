// Package downstream is a sample agent of an embedder that shows how to test such an agent: see
// agent_test.go. Its tests need no root, no container runtime and no time: they use an in-memory
// runtime in virtual time, with all known faults of runtimes.
package downstream

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// An Agent runs the given pods, and reports their state.
type Agent struct {
	*agent.Agent
	// Pods is told which pods should run.
	Pods *source.Push

	mu       sync.Mutex
	statuses map[types.UID]v1.PodStatus
}

// New returns an agent on a connection to a runtime, which is where a test comes in.
// It starts nothing until Run is called.
func New(conn *grpc.ClientConn) (*Agent, error) {
	a := &Agent{Pods: source.NewPush(), statuses: map[types.UID]v1.PodStatus{}}
	var err error
	a.Agent, err = agent.New(agent.Config{
		Client:  cri.NewClient(conn),
		Sources: []source.Source{a.Pods},
		// The disk of the machine that runs the tests may be full, and the runtime in memory writes no log files.
		NoEviction: true, NoLogRotation: true,
		Sync: syncpod.Config{RuntimeName: "containerd", Sink: a},
	})
	return a, err
}

// SetPodStatus makes the agent the sink of its own statuses. A real one would send
// them somewhere.
func (a *Agent) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[pod.UID] = status
	return nil
}

// Status returns the newest status of a pod.
func (a *Agent) Status(uid types.UID) v1.PodStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.statuses[uid]
}
