package downstream

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// Whatever call of the agent is its last one before kill -9, the next agent on the same files takes the pod over: the
// container runs once.
func TestKill9(t *testing.T) {
	for calls := 1; calls <= 10; calls++ {
		synctest.Test(t, func(t *testing.T) {
			job := pod("sleep 60")
			job.Spec.RestartPolicy = v1.RestartPolicyNever
			node := critest.NewNode(t, critest.Config{})
			start := func(ctx context.Context, run *critest.AgentRun) error {
				pods := source.NewPush()
				a, err := agent.New(agent.Config{
					Client: cri.NewClient(run.Conn), Root: node.Root, Sources: []source.Source{pods}, NoEviction: true,
					Sync: syncpod.Config{RuntimeName: "critest", Sink: syncpod.StatusSinkFunc(run.Report), Node: syncpod.Node{LogsRoot: node.Logs}},
				})
				if err == nil {
					err = pods.Set(job)
				}
				if err != nil {
					return err
				}
				return a.Run(ctx)
			}
			killed := make(chan struct{})
			node.CrashAfter(calls, func() { node.Kill(); close(killed) })
			node.Start(start)
			<-killed
			node.Start(start)
			time.Sleep(10 * time.Minute)
			if got := node.Status(job.UID).Phase; got != v1.PodSucceeded {
				t.Errorf("killed after %d calls: the pod is %s, want %s", calls, got, v1.PodSucceeded)
			}
			node.NoDoubleRuns()
		})
	}
}
