package config

import (
	"testing"
	"testing/fstest"

	"github.com/podsync/podsync/syncpod/container"
)

func TestSwap(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	v2 := fstest.MapFS{
		"sys/fs/cgroup/cgroup.controllers": file("memory"), "sys/fs/cgroup/system.slice/memory.swap.max": file("max"),
		"proc/meminfo": file("MemTotal:        8388608 kB\nSwapTotal:       4194304 kB\nHugePages_Total:       0\n"),
	}
	for _, tc := range []struct {
		behavior string
		machine  fstest.MapFS
		want     container.Swap
	}{
		{"", v2, container.Swap{Behavior: container.NoSwap}},
		{"NoSwap", v2, container.Swap{Behavior: container.NoSwap}},
		{"LimitedSwap", v2, container.Swap{Behavior: container.LimitedSwap, Bytes: 4 << 30}},
		{"", fstest.MapFS{"sys/fs/cgroup/cgroup.controllers": file("memory")}, container.Swap{}},
		{"", fstest.MapFS{"sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": file("0")}, container.Swap{Behavior: container.NoSwap, CgroupV1: true}},
		{"", fstest.MapFS{"sys/fs/cgroup/memory/tasks": file("0")}, container.Swap{}},
	} {
		c, _, err := parse([]byte(hardeningHead+"failSwapOn: false\nmemorySwap: {swapBehavior: \""+tc.behavior+"\"}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := Swap(c, tc.machine); got != tc.want {
			t.Errorf("%q: %+v, want %+v", tc.behavior, got, tc.want)
		}
	}
}
