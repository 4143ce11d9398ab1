// Package loopagent has agents of podsync's [loop.Loop] tested by package agenttest: in one
// process with the test, and in virtual time if the test asks for it.
//
//	agenttest.Run(t, synctest.Test, agenttest.Config{Agent: loopagent.New(nil)})
package loopagent

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/agenttest"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// New returns what Config.Agent of agenttest asks for. For each life of the agent the
// config of its loop is made: on the node's runtime and directories, with static pods and
// with statuses that are reported to the node. configure may change it, nil for not at all.
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

	// What follows is of the present life, or of the last one.
	push   *source.Push
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of Run, once ended is closed
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
		NoEviction: true, // this machine may be short of something
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

// SetPods keeps the pods for the next life, too.
func (a *agent) SetPods(pods []*v1.Pod) error {
	a.pods = pods
	if a.push == nil {
		return nil
	}
	return a.push.Set(pods...)
}

// Stop detaches: the pods run on.
func (a *agent) Stop() error {
	a.cancel()
	<-a.ended
	return errors.Join(a.err, a.conn.Close())
}

// Kill takes the connection away before anything else: what the loop still does as it ends
// reaches the runtime no more. What it keeps on disk it may still write.
func (a *agent) Kill() error {
	err := a.conn.Close()
	a.cancel()
	<-a.ended
	return err // Run's error: the runtime is unavailable
}
