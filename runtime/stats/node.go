package stats

import (
	"bytes"
	"strings"
	"time"
)

// tick is the unit of the node's CPU time: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// procNode reads the node's figures in /proc.
func (f *files) procNode(now time.Time, withNetwork bool) Node {
	n := Node{Memory: f.nodeMemory(now)}
	if text, ok := f.must("proc/stat"); ok {
		n.CPU = f.nodeCPU(now, text)
		if boot := f.keyed("proc/stat", text, "btime")["btime"]; boot != nil {
			n.BootTime = time.Unix(int64(*boot), 0)
		}
	}
	if withNetwork {
		n.Network = f.nodeNetwork(now)
	}
	return n
}

// nodeRlimit reads the number of processes and threads, and the lower of the two limits on it.
func (f *files) nodeRlimit(now time.Time) *Rlimit {
	r := &Rlimit{Time: now, MaxPID: f.number("proc/sys/kernel/pid_max")}
	if text, ok := f.must("proc/loadavg"); ok {
		r.NumOfRunningProcesses = f.parseLoad(string(text))
	}
	if threads := f.number("proc/sys/kernel/threads-max"); r.MaxPID == nil || threads != nil && *threads < *r.MaxPID {
		r.MaxPID = threads
	}
	return r
}

// parseLoad returns the number after the slash in 0.00 0.00 0.00 1/123 4567.
func (f *files) parseLoad(text string) *uint64 {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		f.wrong("proc/loadavg", "it has %.40q and not how many processes there are", text)
		return nil
	}
	_, all, _ := strings.Cut(fields[3], "/")
	return f.parse("proc/loadavg", "it", all)
}

// nodeCPU adds up the time spent in user mode, at low priority, in the kernel and in interrupts.
// Idle time, waiting for I/O and stolen time do not count.
func (f *files) nodeCPU(now time.Time, text []byte) *CPU {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 8 || fields[0] != "cpu" {
		f.wrong("proc/stat", "it begins with %.40q and not with what all processors did", line)
		return nil
	}
	var ticks uint64
	for _, i := range []int{1, 2, 3, 6, 7} {
		n := f.parse("proc/stat", "cpu", fields[i])
		if n == nil {
			return nil
		}
		ticks += *n
	}
	return &CPU{Time: now, UsageCoreNanoSeconds: scaled(&ticks, uint64(tick))}
}

// nodeMemory counts as the root cgroup does: the process memory, and the page cache.
func (f *files) nodeMemory(now time.Time) *Memory {
	const name = "proc/meminfo"
	text, ok := f.must(name)
	if !ok {
		return nil
	}
	kib := f.keyed(name, text, "MemTotal:", "AnonPages:", "Cached:", "Buffers:", "SwapCached:", "Inactive(file):")
	m := &Memory{Time: now, RSSBytes: scaled(kib["AnonPages:"], 1024)}
	m.UsageBytes = scaled(sum(kib["AnonPages:"], kib["Cached:"], kib["Buffers:"], kib["SwapCached:"]), 1024)
	m.WorkingSetBytes = less(m.UsageBytes, scaled(kib["Inactive(file):"], 1024))
	m.AvailableBytes = less(scaled(kib["MemTotal:"], 1024), m.WorkingSetBytes)
	return m
}

// sum returns the sum of the numbers, or nil if one of them is nil.
func sum(numbers ...*uint64) *uint64 {
	var total uint64
	for _, n := range numbers {
		if n == nil {
			return nil
		}
		total += *n
	}
	return &total
}
