package csi_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The volumes of running pods cause no call to the driver in an hour. If the driver can expand volumes, each claim is read
// once a minute, and its PersistentVolume only if the claim asks for more than it has.
//
// PODSYNC_CSI_VOLUMES is the number of volumes, 50 by default.
func TestIdleVolumesCauseNoCalls(t *testing.T) {
	pods := int64(50)
	if text := os.Getenv("PODSYNC_CSI_VOLUMES"); text != "" {
		must.Get(fmt.Sscan(text, &pods))(t)
	}
	for _, test := range []struct {
		config csitest.Config
		reads  int64
	}{{csitest.Config{}, pods * 60}, {csitest.Config{NoExpand: true}, 0}} {
		bubble(t, test.config, func(t *testing.T, n *node) {
			var claims, volumes atomic.Int64
			n.objects.Claim = func(_ context.Context, _, name string) (*v1.PersistentVolumeClaim, error) {
				claims.Add(1)
				c := claim(name, "pv-of-"+name)
				c.Status.Phase = v1.ClaimBound
				size := persistent("", v1.ReadWriteOnce).Spec.Capacity
				c.Spec.Resources.Requests, c.Status.Capacity = size, size
				return c, nil
			}
			n.objects.Volume = func(_ context.Context, name string) (*v1.PersistentVolume, error) {
				volumes.Add(1)
				pv := persistent(name, v1.ReadWriteOnce)
				pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: name[len("pv-of-"):], UID: types.UID("uid-of-" + name[len("pv-of-"):])}
				return pv, nil
			}
			n.start()
			for i := range pods {
				n.mustSetUp(podOf(fmt.Sprint("pod-", i), fmt.Sprint("claim-", i)))
			}
			n.settle()
			time.Sleep(time.Minute / 2) // the hour begins and ends between two reads
			before := len(n.driver.Calls())
			claims.Store(0)
			volumes.Store(0)
			began := processorTime(t)
			time.Sleep(time.Hour)
			t.Logf("%d volumes, expands %t: an hour cost %s of processor time", pods, !test.config.NoExpand, processorTime(t)-began)
			if calls := n.driver.Calls()[before:]; len(calls) > 0 || claims.Load() != test.reads || volumes.Load() != 0 {
				t.Errorf("%d calls, %d reads of claims, %d of volumes in an hour, want 0, %d and 0", len(calls), claims.Load(), volumes.Load(), test.reads)
			}
		})
	}
}

// processorTime returns this process's processor time.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
