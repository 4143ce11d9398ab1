package csi_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// BenchmarkVolume measures what a CSI volume adds to the start and to the end of a pod: the time of SetUp and of TearDown
// with a driver that takes no time. SetUp writes the volume's record to the disk.
func BenchmarkVolume(b *testing.B) {
	_, conn := csitest.Start(b, csitest.Config{})
	m := must.Get(csi.New(csi.Config{Root: b.TempDir(), Drivers: map[string]grpc.ClientConnInterface{driverName: conn}, Objects: csi.Objects{
		Claim: func(_ context.Context, _, name string) (*v1.PersistentVolumeClaim, error) {
			c := claim(name, "pv")
			c.Status.Phase = v1.ClaimBound
			return c, nil
		},
		Volume: func(_ context.Context, name string) (*v1.PersistentVolume, error) {
			pv := persistent(name, v1.ReadWriteOnce)
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "data", UID: types.UID("uid-of-data")}
			return pv, nil
		},
	}}))(b)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	defer running.Wait()
	defer cancel()
	pods := 0
	next := func() *v1.Pod { pods++; return podOf(fmt.Sprint("pod-", pods), "data") }
	first := next() // it waits until the driver is registered
	must.Do(b, m.SetUp(ctx, first, &first.Spec.Volumes[0], ""))
	must.Do(b, m.TearDown(ctx, first.UID, ""))
	b.Run("start", func(b *testing.B) { startAndEnd(b, m, next, b.StartTimer, b.StopTimer) })
	b.Run("end", func(b *testing.B) { startAndEnd(b, m, next, b.StopTimer, b.StartTimer) })
}

// startAndEnd mounts and unmounts the volume of each pod. It calls start before SetUp, and end before TearDown.
func startAndEnd(b *testing.B, m *csi.Manager, next func() *v1.Pod, start, end func()) {
	for range b.N {
		pod := next()
		start()
		err := m.SetUp(b.Context(), pod, &pod.Spec.Volumes[0], "")
		end()
		if err == nil {
			err = m.TearDown(b.Context(), pod.UID, "")
		}
		must.Do(b, err)
	}
}
