package tree

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// current returns the kernel's settings for a cgroup that an earlier agent, or systemd, has
// created. Unreadable values count as not limited.
func (t *Tree) current(mount *os.Root, at string) (r cgroup.Resources, ok bool) {
	if !t.exists(mount, at) {
		return r, false
	}
	f := cgroupFiles{t, mount, at}
	if t.kernel.version == cgroup.V1 {
		r.CPUShares, _ = f.number("cpu", "cpu.shares")
		r.CPUQuota, r.CPUPeriod = f.limit("cpu", "cpu.cfs_quota_us"), f.limit("cpu", "cpu.cfs_period_us")
		r.Memory = f.limit("memory", "memory.limit_in_bytes")
	} else {
		if weight, known := f.number("cpu", "cpu.weight"); known {
			r.CPUShares = cgroup.WeightToShares(weight)
		}
		r.CPUQuota, r.CPUPeriod = f.bandwidth()
		r.Memory = f.limit("memory", "memory.max")
	}
	if r.CPUQuota == nil || r.CPUPeriod == nil {
		r.CPUQuota, r.CPUPeriod = nil, nil
	}
	r.PIDs = f.limit("pids", "pids.max")
	r.HugePages = f.pages()
	return r, true
}

// cgroupFiles are one cgroup's files.
type cgroupFiles struct {
	tree  *Tree
	mount *os.Root
	at    string
}

func (f cgroupFiles) text(controller, file string) string {
	text, err := readFile(f.mount, path.Join(f.tree.kernel.controllers[controller], f.at, file), maxSetting)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

func (f cgroupFiles) number(controller, file string) (n int64, ok bool) {
	n, err := strconv.ParseInt(f.text(controller, file), 10, 64)
	return n, err == nil
}

// noLimit is the smallest value that means no limit. It is less than version 1's value for unlimited
// memory, which depends on the page size, and more than any real limit.
const noLimit = math.MaxInt64 >> 1

// limit returns nil for no limit.
func (f cgroupFiles) limit(controller, file string) *int64 {
	n, ok := f.number(controller, file)
	if !ok || n < 0 || n >= noLimit {
		return nil
	}
	return &n
}

// bandwidth parses the CPU time in the format of version 2.
func (f cgroupFiles) bandwidth() (quota, period *int64) {
	share, of, _ := strings.Cut(f.text("cpu", "cpu.max"), " ")
	q, errQuota := strconv.ParseInt(share, 10, 64)
	p, errPeriod := strconv.ParseInt(of, 10, 64)
	if errQuota != nil || errPeriod != nil {
		return nil, nil
	}
	return &q, &p
}

func (f cgroupFiles) pages() map[int64]int64 {
	pages := map[int64]int64{}
	for _, size := range f.tree.kernel.pages {
		limit := f.limit("hugetlb", cgroup.PageFile(f.tree.kernel.version, size))
		pages[size] = math.MaxInt64
		if limit != nil {
			pages[size] = *limit
		}
	}
	return pages
}
