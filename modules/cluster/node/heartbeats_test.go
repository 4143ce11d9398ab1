package node_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestHeartbeatsHaveAClientOfTheirOwn: the lease and the status are written with Heartbeats and never with Kube. After a
// failure HeartbeatFailed closes the connections.
func TestHeartbeatsHaveAClientOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		watchCopies(kube)
		heartbeats := fake.NewClientset()
		heartbeats.PrependReactor("*", "*", func(a ktesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("the connection is dead")
		})
		var failures atomic.Int32
		c := configOf(kube, &cri{})
		c.Heartbeats, c.HeartbeatFailed = heartbeats, func() { failures.Add(1) }
		n := must.Get(node.New(c))(t)
		stop := must.Go(t, n.Run)
		time.Sleep(time.Minute)
		stop()
		if failures.Load() == 0 {
			t.Error("a heartbeat has failed, and HeartbeatFailed is not called")
		}
		written := map[string]bool{}
		for _, a := range heartbeats.Actions() {
			written[a.GetResource().Resource] = true
		}
		if !written["leases"] || !written["nodes"] {
			t.Errorf("Heartbeats writes %v, want leases and nodes", written)
		}
		for _, a := range kube.Actions() {
			if a.GetResource().Resource == "leases" || a.GetSubresource() == "status" {
				t.Errorf("Kube is asked for a heartbeat: %v", a)
			}
		}
	})
}

// Renewed is called after each successful renewal of the lease, and not after a failed one.
func TestRenewalsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		watchCopies(kube)
		var dead atomic.Bool
		heartbeats := fake.NewClientset()
		heartbeats.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) {
			return dead.Load(), nil, errors.New("the connection is dead")
		})
		var renewed atomic.Int32
		c := configOf(kube, &cri{})
		c.Heartbeats, c.Renewed = heartbeats, func() { renewed.Add(1) }
		n := must.Get(node.New(c))(t)
		must.Go(t, n.Run)
		time.Sleep(10 * time.Minute)
		if got := renewed.Load(); got < 50 || got > 60 {
			t.Errorf("%d renewals are reported in ten minutes, want one in 10 s", got)
		}
		dead.Store(true)
		renewed.Store(0)
		time.Sleep(10 * time.Minute)
		if got := renewed.Load(); got != 0 {
			t.Errorf("%d renewals are reported, and all have failed", got)
		}
	})
}
