package csi_test

import (
	"math"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/modules/csi/csitest"
	"github.com/podsync/podsync/syncpod/volume"
)

// A volume is measured once a minute, and only if its usage is read, for all pods that have it.
func TestUsageOfVolumes(t *testing.T) {
	bubble(t, csitest.Config{Conditions: true}, func(t *testing.T, n *node) {
		n.start()
		a, b := podOf("a", "data"), podOf("b", "data")
		n.mustSetUp(a)
		n.mustSetUp(b)
		n.settle()
		if got := n.countCalls("NodeGetStats"); got != 0 {
			t.Errorf("%d calls before the usage is read", got)
		}
		for range 3 {
			all := n.m.VolumeStats(t.Context())
			if len(all) != 2 || all[0].Pod != "a" || all[1].Pod != "b" {
				t.Fatalf("%+v, want the volume of both pods", all)
			}
			s := all[0]
			if s.Volume != "vol" || s.Claim.String() != "ns/data" || *s.CapacityBytes != 10<<30 || *s.UsedBytes != 1<<30 || *s.AvailableBytes != 9<<30 ||
				*s.Inodes != 1000 || *s.InodesUsed != 10 || *s.InodesFree != 990 || *s.Abnormal || !s.Time.Equal(time.Now()) {
				t.Errorf("%+v", s)
			}
		}
		n.driver.SetUsage("handle-of-pv", &csipb.NodeGetVolumeStatsResponse{VolumeCondition: &csipb.VolumeCondition{Abnormal: true}})
		time.Sleep(time.Minute)
		n.mustTearDown(a)
		if all := n.m.VolumeStats(t.Context()); len(all) != 1 || all[0].Pod != "b" || !*all[0].Abnormal || all[0].CapacityBytes != nil {
			t.Errorf("%+v, want a faulty volume of pod b", all)
		}
		if got := n.countCalls("NodeGetStats"); got != 2 {
			t.Errorf("%d calls, want one a minute", got)
		}
		n.mustTearDown(b)
		n.settle()
		if all := n.m.VolumeStats(t.Context()); len(all) != 0 {
			t.Errorf("after the end of the pods: %+v", all)
		}
		n.wantNothing()
	})
}

// The usage of a volume that a driver cannot report costs no call, and a condition counts only with the capability.
func TestUsageNeedsTheCapability(t *testing.T) {
	for _, c := range []csitest.Config{{NoStats: true, Conditions: true}, {}} {
		bubble(t, c, func(t *testing.T, n *node) {
			n.start()
			n.mustSetUp(podOf("a", "data"))
			all := n.m.VolumeStats(t.Context())
			if c.NoStats && (len(all) != 0 || n.countCalls("NodeGetStats") != 0) {
				t.Errorf("without the capability: %+v, %v", all, n.driver.Calls())
			}
			if !c.NoStats && (len(all) != 1 || all[0].Abnormal != nil) {
				t.Errorf("without VOLUME_CONDITION: %+v", all)
			}
		})
	}
}

// A driver that hangs delays the caller by a second, gets one call a minute, and loses the usage of no other driver.
func TestADriverThatHangsIsAskedOnceAMinute(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.mustSetUp(podOf("b", "mine"))
		n.driver.Inject(csitest.Fault{Method: "NodeGetStats", Delay: time.Hour})
		began := time.Now()
		for time.Since(began) < 5*time.Minute {
			asked := time.Now()
			if all := n.m.VolumeStats(t.Context()); len(all) != 0 || time.Since(asked) > time.Second {
				t.Fatalf("%+v after %v", all, time.Since(asked))
			}
			time.Sleep(2 * time.Second)
		}
		if got := n.countCalls("NodeGetStats"); got < 4 || got > 5 {
			t.Errorf("%d calls in five minutes, want one a minute", got)
		}
		n.driver.Heal()
		time.Sleep(2 * time.Minute)
		if all := n.m.VolumeStats(t.Context()); len(all) != 2 {
			t.Errorf("after the driver has recovered: %+v", all)
		}
	})
}

// A volume whose backend hangs does not keep the usage of the driver's other volumes unknown. A usage that is older than
// five minutes is not returned: an alert would rely on it.
func TestAVolumeThatHangsHidesNoOther(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.mustSetUp(podOf("b", "mine"))
		if all := n.m.VolumeStats(t.Context()); len(all) != 2 {
			t.Fatalf("%+v, want both volumes", all)
		}
		n.driver.Inject(csitest.Fault{Method: "NodeGetStats", Volume: "handle-of-pv", Delay: time.Hour})
		var all []volume.Stats
		for range 10 {
			time.Sleep(time.Minute)
			all = n.m.VolumeStats(t.Context())
			time.Sleep(30 * time.Second)
		}
		if len(all) != 1 || all[0].Pod != "b" || time.Since(all[0].Time) > 3*time.Minute {
			t.Errorf("%+v, want the recent usage of the other volume", all)
		}
	})
}

// A driver measures its volumes one after the other.
func TestADriverMeasuresOneVolumeAtATime(t *testing.T) {
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.start()
		n.mustSetUp(podOf("a", "data"))
		n.mustSetUp(podOf("b", "mine"))
		n.driver.Inject(csitest.Fault{Method: "NodeGetStats", Delay: 5 * time.Second})
		began := time.Now()
		for _, at := range []struct {
			after time.Duration
			want  int
		}{{0, 0}, {4 * time.Second, 0}, {6 * time.Second, 1}, {9 * time.Second, 1}, {11 * time.Second, 2}} {
			time.Sleep(time.Until(began.Add(at.after)))
			if all := n.m.VolumeStats(t.Context()); len(all) != at.want {
				t.Errorf("after %v: %d volumes, want %d", at.after, len(all), at.want)
			}
		}
	})
}

// A figure that cannot be true is dropped, and the others are kept.
func TestUsageThatCannotBeTrue(t *testing.T) {
	usage := func(unit csipb.VolumeUsage_Unit, total, free, used int64) *csipb.VolumeUsage {
		return &csipb.VolumeUsage{Unit: unit, Total: total, Available: free, Used: used}
	}
	for _, test := range []struct {
		usage []*csipb.VolumeUsage
		check func(s volume.Stats) bool
	}{
		{[]*csipb.VolumeUsage{usage(csipb.VolumeUsage_BYTES, -1, 5, 3)}, func(s volume.Stats) bool {
			return s.CapacityBytes == nil && *s.AvailableBytes == 5 && *s.UsedBytes == 3 && s.Inodes == nil
		}},
		{[]*csipb.VolumeUsage{usage(csipb.VolumeUsage_INODES, 10, math.MaxInt64, math.MinInt64)}, func(s volume.Stats) bool {
			return *s.Inodes == 10 && s.InodesFree == nil && s.InodesUsed == nil && s.CapacityBytes == nil
		}},
		{[]*csipb.VolumeUsage{nil, usage(csipb.VolumeUsage_UNKNOWN, 1, 1, 1), usage(7, 1, 1, 1)}, func(s volume.Stats) bool { return s.CapacityBytes == nil && s.Inodes == nil }},
		{[]*csipb.VolumeUsage{usage(csipb.VolumeUsage_BYTES, 0, 5, 8)}, func(s volume.Stats) bool { return *s.AvailableBytes == 5 && *s.UsedBytes == 8 }}, // a total is optional
		{nil, func(s volume.Stats) bool { return s.CapacityBytes == nil }},
	} {
		bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
			n.start()
			n.mustSetUp(podOf("a", "data"))
			n.driver.SetUsage("handle-of-pv", &csipb.NodeGetVolumeStatsResponse{Usage: test.usage})
			if all := n.m.VolumeStats(t.Context()); len(all) != 1 || !test.check(all[0]) {
				t.Errorf("%v: %+v", test.usage, all)
			}
		})
	}
}

// A directory of the node has the usage of its file system. A volume that is not mounted has none.
func TestUsageOfALocalVolume(t *testing.T) {
	dir := needsMount(t)
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.root = dir
		n.objects = csi.Static([]*v1.PersistentVolume{localVolume(t.TempDir())}, []*v1.PersistentVolumeClaim{claim("disk", "disk-1")})
		n.start()
		a := podOf("a", "disk")
		n.mustSetUp(a)
		if all := n.m.VolumeStats(t.Context()); len(all) != 1 || all[0].Claim.Name != "disk" || *all[0].CapacityBytes == 0 || *all[0].AvailableBytes > *all[0].CapacityBytes || all[0].Abnormal != nil {
			t.Errorf("%+v", all)
		}
		n.mustTearDown(a)
		if all := n.m.VolumeStats(t.Context()); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// A file system that does not answer delays neither the caller nor the end of the Manager, and has one call at a time.
func TestFileSystemThatHangs(t *testing.T) {
	dir := needsMount(t)
	bubble(t, csitest.Config{}, func(t *testing.T, n *node) {
		n.root = dir
		n.objects = csi.Static([]*v1.PersistentVolume{localVolume(t.TempDir())}, []*v1.PersistentVolumeClaim{claim("disk", "disk-1")})
		n.start()
		a := podOf("a", "disk")
		n.mustSetUp(a)
		end := make(chan struct{})
		calls := n.m.HangStatFS(end)
		for range 5 {
			if all := n.m.VolumeStats(t.Context()); len(all) != 0 {
				t.Errorf("%+v", all)
			}
			time.Sleep(2 * time.Minute)
		}
		if got := calls.Load(); got != 1 {
			t.Errorf("%d calls wait, want 1", got)
		}
		close(end)
		time.Sleep(2 * time.Minute)
		if all := n.m.VolumeStats(t.Context()); len(all) != 1 {
			t.Errorf("after the answer: %+v", all)
		}
		n.mustTearDown(a)
	})
}
