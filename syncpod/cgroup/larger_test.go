package cgroup_test

import (
	"reflect"
	"testing"

	"github.com/podsync/podsync/syncpod/cgroup"
)

func TestLarger(t *testing.T) {
	bounded := func(shares, quota, period, memory, pids, pages int64) cgroup.Resources {
		return cgroup.Resources{
			CPUShares: shares, CPUQuota: &quota, CPUPeriod: &period, Memory: &memory, PIDs: &pids, HugePages: map[int64]int64{2 << 20: pages},
		}
	}
	open := cgroup.Resources{CPUShares: 2}
	for _, tt := range []struct {
		name             string
		last, next, want cgroup.Resources
	}{
		{"more", bounded(2, 100, 1000, 10, 20, 30), bounded(3, 200, 1000, 20, 30, 40), bounded(3, 200, 1000, 20, 30, 40)},
		{"less", bounded(3, 200, 1000, 20, 30, 40), bounded(2, 100, 1000, 10, 20, 30), bounded(3, 200, 1000, 20, 30, 40)},
		{"of each the larger", bounded(3, 100, 1000, 20, 20, 40), bounded(2, 200, 1000, 10, 30, 30), bounded(3, 200, 1000, 20, 30, 40)},
		{"in another period", bounded(2, 500, 1000, 1, 1, 0), bounded(2, 100, 2000, 1, 1, 0), bounded(2, 1000, 2000, 1, 1, 0)},
		{"from no limits", open, bounded(2, 100, 1000, 10, 20, 30), cgroup.Resources{CPUShares: 2, HugePages: map[int64]int64{2 << 20: 30}}},
		{"to no limits", bounded(2, 100, 1000, 10, 20, 30), open, cgroup.Resources{CPUShares: 2, HugePages: map[int64]int64{2 << 20: 30}}},
		{"zero limits nothing", bounded(2, 0, 1000, 0, 20, 30), bounded(2, 100, 1000, 10, 20, 30), cgroup.Resources{CPUShares: 2, PIDs: new(int64(20)), HugePages: map[int64]int64{2 << 20: 30}}},
	} {
		if got := cgroup.Larger(tt.last, tt.next); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
