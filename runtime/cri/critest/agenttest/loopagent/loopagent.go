// Package loopagent lets package agenttest test podsync's [loop.Loop]: in the test's process, and in
// virtual time if the test uses it.
//
//	agenttest.Run(t, synctest.Test, agenttest.Config{Agent: loopagent.New(nil)})
package loopagent

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// New returns a function for Config.Agent of agenttest. For each life of the agent it creates a loop's
// config: with the node's runtime and directories, with static pods, and with an observer that reports
// statuses to the node. configure may modify the config; it may be nil.
func New(configure func(agenttest.Node, *nodeagent.Config)) func(agenttest.Node) (agenttest.Agent, error) {
	if configure == nil {
		configure = func(agenttest.Node, *nodeagent.Config) {}
	}
	return func(node agenttest.Node) (agenttest.Agent, error) {
		return &agent{node: node, configure: configure}, nil
	}
}

// agent is one loop after the other, on one node.
type agent struct {
	node      agenttest.Node
	configure func(agenttest.Node, *nodeagent.Config)
	pods      []*v1.Pod

	// The fields below belong to the agent's current life, or to the last one.
	push   *source.Push
	conn   io.Closer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // Run's error, valid after ended is closed
}

// Start starts a loop that receives the pods immediately.
func (a *agent) Start() error {
	conn, err := a.node.Dial(grpc.WithChainUnaryInterceptor(cri.Timeouts{}.Interceptor()))
	if err != nil {
		return err
	}
	push := source.NewStaticPush(runtime.ConfigSourceFile)
	cfg := nodeagent.Config{
		Client: cri.NewClient(conn), Root: a.node.Root, Sources: []source.Source{push},
		NoEviction: true, // the test's own machine may be under pressure
		Sync:       syncpod.Config{RuntimeName: "critest", Sink: syncpod.StatusSinkFunc(a.report), Node: syncpod.Node{LogsRoot: a.node.Logs}},
	}
	a.configure(a.node, &cfg)
	l, err := nodeagent.New(cfg)
	if err == nil {
		err = push.Set(a.pods...)
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.push, a.conn, a.cancel, a.ended, a.err = push, conn, cancel, make(chan struct{}), nil
	go func() {
		defer close(a.ended)
		a.err = l.Run(ctx)
	}()
	return nil
}

func (a *agent) report(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	a.node.Report(pod.UID, status)
	return nil
}

// SetPods also stores the pods for the next life.
func (a *agent) SetPods(pods []*v1.Pod) error {
	a.pods = pods
	if a.push == nil {
		return nil
	}
	return a.push.Set(pods...)
}

// Stop detaches the agent; its pods keep running.
func (a *agent) Stop() error {
	a.cancel()
	<-a.ended
	return errors.Join(a.err, a.conn.Close())
}

// Kill closes the connection first, so that no further call of the ending loop reaches the runtime. The
// loop may still write its files.
func (a *agent) Kill() error {
	err := a.conn.Close()
	a.cancel()
	<-a.ended
	return err // Run's error is that the runtime is unavailable
}
