package stats

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"
)

// A search ends, however many cgroups containers make, and does not descend into the containers of any pod.
func TestSearchIsBounded(t *testing.T) {
	tree := fstest.MapFS{}
	for i := range 3 * maxNames {
		tree[fmt.Sprintf("memory/x%d/cgroup.procs", i)] = &fstest.MapFile{}
	}
	f := files{FS: tree}
	entries, err := readDir(f.FS, "memory", maxNames)
	if err != nil || len(entries) != maxNames {
		t.Errorf("%d names, %v, want %d", len(entries), err, maxNames)
	}
	left := 100
	c := finder{known: map[string]string{}}
	c.search(&f, "memory", "", map[string]bool{"absent": true}, nil, &left, 0)
	if left != 0 || len(f.errs) > 0 {
		t.Errorf("%d names are left, %v, want a search that ends after 100", left, f.errs)
	}
}

// A container of a pod that lacks nothing is not searched.
func TestSearchStopsAtContainers(t *testing.T) {
	f := files{FS: fstest.MapFS{"memory/poda/other/deep/wanted/cgroup.procs": {}, "memory/poda/wanted/cgroup.procs": {}}}
	c := finder{}
	c.find(&f, hierarchy{memory: "memory"}, map[string]bool{"wanted": true}, map[string]bool{"wanted": true, "other": true, "poda": true}, time.Now())
	if c.known["wanted"] != "poda/wanted" {
		t.Errorf("the container has the cgroup %q, want %q", c.known["wanted"], "poda/wanted")
	}
}
