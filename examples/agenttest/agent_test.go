package agenttest

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/syncpod"
)

// subject implements agenttest.Agent: it runs one Agent after the other on one node.
type subject struct {
	node agenttest.Node
	pods []*v1.Pod

	agent *Agent
	conn  io.Closer
	end   context.CancelFunc
	ended chan error
}

func (s *subject) Start() error {
	conn, err := s.node.Dial(grpc.WithChainUnaryInterceptor(cri.Timeouts{}.Interceptor()))
	if err != nil {
		return err
	}
	agent, err := New(conn, s.node.Root, syncpod.StatusSinkFunc(func(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
		s.node.Report(pod.UID, status)
		return nil
	}))
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	s.agent, s.conn, s.end, s.ended = agent, conn, end, make(chan error, 1)
	go func() { s.ended <- agent.Run(ctx) }()
	return agent.Set(s.pods...)
}

func (s *subject) SetPods(pods []*v1.Pod) error {
	s.pods = pods // also for the next start
	if s.agent == nil {
		return nil
	}
	return s.agent.Set(pods...)
}

func (s *subject) Stop() error {
	s.end()
	return errors.Join(<-s.ended, s.conn.Close())
}

// Kill cuts the agent off from the runtime before it ends, so that its last calls have no effect.
func (s *subject) Kill() error {
	err := s.conn.Close()
	s.end()
	<-s.ended
	return err
}

// The agent keeps the promises to pods in the fixed scenarios and in some random ones. go test -v prints how often each
// promise was tested.
func TestPromises(t *testing.T) {
	scenarios := agenttest.Scenarios()
	for seed := range uint64(10) {
		scenarios = append(scenarios, agenttest.Random(seed))
	}
	agenttest.Run(t, synctest.Test, agenttest.Config{
		Agent:     func(node agenttest.Node) (agenttest.Agent, error) { return &subject{node: node}, nil },
		Scenarios: scenarios,
	})
}
