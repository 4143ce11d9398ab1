// Package downstream is a sample agent that shows how a program that embeds podsync tests its agent: see agent_test.go.
// The tests need neither root nor a container runtime, and take no real time: they use a runtime in memory in virtual
// time, and inject the known runtime faults.
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
	// Pods sets the pods that should run.
	Pods *source.Push

	mu       sync.Mutex
	statuses map[types.UID]v1.PodStatus
}

// New returns an agent that uses the given connection to a runtime; a test passes a runtime's connection in
// memory. The agent starts nothing until Run is called.
func New(conn grpc.ClientConnInterface) (*Agent, error) {
	a := &Agent{Pods: source.NewPush(), statuses: map[types.UID]v1.PodStatus{}}
	var err error
	a.Agent, err = agent.New(agent.Config{
		Client:  cri.NewClient(conn),
		Sources: []source.Source{a.Pods},
		// The test machine's disk may be full, and the runtime in memory writes no log files.
		NoEviction: true, NoLogRotation: true,
		Sync: syncpod.Config{RuntimeName: "containerd", Sink: a},
	})
	return a, err
}

// SetPodStatus records the statuses of the agent's own pods. A real agent would send them to a server.
func (a *Agent) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[pod.UID] = status
	return nil
}

// Status returns a pod's newest status.
func (a *Agent) Status(uid types.UID) v1.PodStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.statuses[uid]
}
