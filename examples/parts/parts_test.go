package main

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
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/podspec"
)

// TestPromises judges the agent as any other node agent.
func TestPromises(t *testing.T) {
	report := agenttest.Run(t, synctest.Test, agenttest.Config{
		Agent: func(node agenttest.Node) (agenttest.Agent, error) { return &judged{node: node}, nil }, Dir: t.TempDir(),
	})
	for _, o := range report.Outcomes {
		if o.State != agenttest.Kept {
			t.Errorf("%s is %s, want %v", o.Promise, o.State, agenttest.Kept)
		}
	}
}

// judged is the agent under test: one life after the other, on one node.
type judged struct {
	node   agenttest.Node
	pods   []*v1.Pod
	life   *agent
	conn   io.Closer
	cancel context.CancelFunc
	ended  chan error
}

func (j *judged) Start() error {
	conn, err := j.node.Dial(grpc.WithChainUnaryInterceptor(cri.Timeouts{}.Interceptor()))
	if err != nil {
		return err
	}
	life, err := newAgent(config{client: cri.NewClient(conn), runtimeName: "critest", root: j.node.Root, logs: j.node.Logs, node: container.Node{MemoryBytes: 8 << 30}, report: j.node.Report})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	j.life, j.conn, j.cancel, j.ended = life, conn, cancel, make(chan error, 1)
	life.desired.Set(j.pods)
	go func() { j.ended <- life.run(ctx) }()
	return nil
}

func (j *judged) SetPods(pods []*v1.Pod) error {
	j.pods = nil
	for _, pod := range pods {
		j.pods = append(j.pods, podspec.Default(pod))
	}
	if j.life != nil {
		j.life.desired.Set(j.pods)
	}
	return nil
}

func (j *judged) Stop() error {
	j.cancel()
	return errors.Join(<-j.ended, j.conn.Close())
}

func (j *judged) Kill() error {
	err := j.conn.Close()
	j.cancel()
	<-j.ended
	return err
}
