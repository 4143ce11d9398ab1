//go:build linux

package reports

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
)

// networkDown is a network that is not ready while it is true.
type networkDown struct{ atomic.Bool }

func (n *networkDown) NetworkReady(context.Context) error {
	if n.Load() {
		return errors.New("cni plugin not initialized")
	}
	return nil
}

// While the node's network plugin is replaced, containers restart in the sandboxes that they have, and only new sandboxes wait.
func TestR6_RestartWhileTheNetworkIsNotReady(t *testing.T) {
	network := &networkDown{}
	on(t, critest.Config{}, func(c *agent.Config) { c.Sync.Extensions.Network = network }, func(n *node) {
		n.apply(`{metadata: {name: p}, spec: {containers: [{name: c, command: [sh, -c, "sleep 60; exit 1"]}]}}`)
		time.Sleep(30 * time.Second)
		network.Store(true)
		n.apply(`{metadata: {name: new}, spec: {containers: [{name: d, command: [server]}]}}`)
		time.Sleep(100 * time.Second)
		n.want(len(n.runs("c")), 2, "runs of a container whose pod has a sandbox")
		n.want(len(n.runs("d")), 0, "runs of a pod that needs a sandbox")
		n.wantIn(n.told("NetworkNotReady")[0], "cni plugin not initialized", "the event about the new pod")
		network.Store(false)
		time.Sleep(time.Minute)
		n.want(len(n.runs("d")), 1, "runs once the network is ready")
	})
}
