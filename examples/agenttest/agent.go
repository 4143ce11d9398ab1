// Package agenttest is a sample node agent that shows how to check an agent against the promises made to pods: see
// agent_test.go. It is a separate module, as your agent would be.
package agenttest

import (
	"context"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// Agent runs the given pods.
type Agent struct {
	pods  *source.Push
	agent *agent.Agent
}

// New returns an agent that stores its state in a folder.
func New(conn grpc.ClientConnInterface, folder string, sink syncpod.StatusSink) (*Agent, error) {
	pods := source.NewStaticPush("mine")
	made, err := agent.New(agent.Config{
		Client: cri.NewClient(conn), Root: folder, Sources: []source.Source{pods},
		NoEviction: true, // the test machine's disk may be full
		Sync:       syncpod.Config{RuntimeName: "critest", Sink: sink, Node: syncpod.Node{LogsRoot: folder + "/logs"}},
	})
	return &Agent{pods, made}, err
}

// Set sets the pods that should run.
func (a *Agent) Set(pods ...*v1.Pod) error { return a.pods.Set(pods...) }

// Run runs the agent until ctx ends. Its pods keep running.
func (a *Agent) Run(ctx context.Context) error { return a.agent.Run(ctx) }
