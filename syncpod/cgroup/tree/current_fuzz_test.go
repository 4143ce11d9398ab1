package tree

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// FuzzCurrent checks that for any content of a cgroup's files, its limits are unset or valid.
func FuzzCurrent(f *testing.F) {
	for _, text := range []string{"", "max", "100", "max 100000", "50000 100000", "-1", "9223372036854771712", "9223372036854775807 0", "1 2 3", "99999999999999999999"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, v2 bool) {
		dir := t.TempDir()
		k := kernel{version: cgroup.V1, trees: []string{"."}, controllers: map[string]string{"cpu": ".", "memory": ".", "pids": ".", "hugetlb": "."}, pages: []int64{2 << 20}}
		if v2 {
			k.version = cgroup.V2
		}
		for _, name := range []string{
			"cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes", "cpu.weight", "cpu.max", "memory.max", "pids.max", cgroup.PageFile(k.version, 2<<20),
		} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		mount := must.Get(os.OpenRoot(dir))(t)
		defer mount.Close()
		r, ok := (&Tree{kernel: k}).current(mount, ".")
		if !ok {
			t.Fatal("the cgroup is not found")
		}
		for name, limit := range map[string]*int64{"memory": r.Memory, "pids": r.PIDs} {
			if limit != nil && (*limit < 0 || *limit >= math.MaxInt64>>1) {
				t.Errorf("%s: %q is %d", name, text, *limit)
			}
		}
		if (r.CPUQuota == nil) != (r.CPUPeriod == nil) || r.HugePages[2<<20] < 0 {
			t.Errorf("%q is %+v", text, r)
		}
	})
}
