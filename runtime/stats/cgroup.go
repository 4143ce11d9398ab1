package stats

import (
	"io/fs"
	"path"
	"strings"
	"time"
)

const cgroupRoot = "sys/fs/cgroup"

// A hierarchy is the node's cgroup layout: version 2 has all files of a cgroup in one
// directory, version 1 has one directory for each controller.
type hierarchy struct {
	cpu, memory string // the directories to which cgroup paths are relative
	unified     bool
}

func hierarchyOf(fsys fs.FS) hierarchy {
	if _, err := fs.Stat(fsys, cgroupRoot+"/cgroup.controllers"); err == nil {
		return hierarchy{cgroupRoot, cgroupRoot, true}
	}
	return hierarchy{cpu: cgroupRoot + "/cpuacct", memory: cgroupRoot + "/memory"}
}

// cpuOf and memoryOf read a cgroup's usage. They return nil if it does not exist.
func (f *files) cpuOf(h hierarchy, cgroup string, now time.Time) *CPU {
	c := &CPU{Time: now}
	if h.unified {
		name := path.Join(h.cpu, cgroup, "cpu.stat")
		text, ok := f.read(name)
		if !ok {
			return nil
		}
		c.UsageCoreNanoSeconds = scaled(f.keyed(name, text, "usage_usec")["usage_usec"], 1000)
	} else {
		c.UsageCoreNanoSeconds = f.number(path.Join(h.cpu, cgroup, "cpuacct.usage"))
	}
	if !c.known() {
		return nil
	}
	return c
}

func (f *files) memoryOf(h hierarchy, cgroup string, now time.Time) *Memory {
	names := memoryNames(h.unified)
	dir := path.Join(h.memory, cgroup)
	m := &Memory{Time: now, UsageBytes: f.number(path.Join(dir, names.usage))}
	stat := path.Join(dir, "memory.stat")
	if text, ok := f.read(stat); ok {
		values := f.keyed(stat, text, names.inactive, names.rss, names.faults, names.majorFaults)
		m.RSSBytes, m.PageFaults, m.MajorPageFaults = values[names.rss], values[names.faults], values[names.majorFaults]
		m.WorkingSetBytes = less(m.UsageBytes, values[names.inactive])
	}
	if m.UsageBytes == nil && m.RSSBytes == nil {
		return nil
	}
	m.AvailableBytes = less(f.limit(path.Join(dir, names.limit)), m.WorkingSetBytes)
	return m
}

// namesOf are value names in memory.stat. Version 1 prefixes those that include the
// cgroup's descendants.
type namesOf struct{ usage, limit, inactive, rss, faults, majorFaults string }

func memoryNames(unified bool) namesOf {
	if unified {
		return namesOf{"memory.current", "memory.max", "inactive_file", "anon", "pgfault", "pgmajfault"}
	}
	return namesOf{"memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file", "total_rss", "total_pgfault", "total_pgmajfault"}
}

// processOf returns the PID of a process in the cgroup, or "" if there is none.
func (f *files) processOf(h hierarchy, cgroup string) string {
	text, ok := f.readProcesses(path.Join(h.memory, cgroup, "cgroup.procs"))
	if !ok {
		return ""
	}
	pid, _, _ := strings.Cut(text, "\n")
	if pid == "" || strings.Trim(pid, "0123456789") != "" || pid == "0" { // 0 is a process of another PID namespace
		return ""
	}
	return pid
}

// readProcesses is like read, for a file that may be empty.
func (f *files) readProcesses(name string) (string, bool) {
	text, err := f.readAll(name)
	if err != nil && !isGone(err) {
		f.errs = append(f.errs, err)
	}
	return string(text), err == nil
}
