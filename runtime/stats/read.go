package stats

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/podsync/podsync/internal/order"
	"github.com/podsync/podsync/runtime"
)

// A run is one reading.
type run struct {
	files
	disks
	now       time.Time
	all       bool // false: CPU and memory only
	reported  reported
	hierarchy hierarchy
	finder    finder
}

func (r *Reader) read(ctx context.Context, pods []*runtime.PodStatus, all bool) (Stats, error) {
	read := &run{files: files{FS: r.config.Root}, disks: disks{seen: map[string]*FS{}}, now: time.Now(), all: all}
	stats := Stats{Node: read.procNode(read.now, all)}
	if all {
		stats.Node.FS = read.mustOf(r.config.Dir)
		stats.Node.Rlimit = read.nodeRlimit(read.now)
	}
	read.ask(ctx, r.config.Runtime, pods, &stats.Node)
	read.now = time.Now() // cgroups are read from here on; the runtime may have taken long
	r.mu.Lock()
	read.finder = r.found
	r.mu.Unlock()
	stats.Pods = read.pods(pods)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = read.finder
	r.rate(&stats)
	if ctx.Err() == nil {
		r.rates.sweep()
		r.sums.sweep()
	}
	return stats, errors.Join(append(read.files.errs, read.disks.errs...)...)
}

// rate sets the rates of CPU use.
func (r *Reader) rate(s *Stats) {
	r.rates.fill("", s.Node.CPU)
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.summed {
			p.CPU.UsageCoreNanoSeconds = new(r.sums.total(podKey(p.UID), p.Containers))
		}
		r.rates.fill(podKey(p.UID), p.CPU)
		for j := range p.Containers {
			r.rates.fill(p.Containers[j].ID.ID, p.Containers[j].CPU)
		}
	}
}

// runtimeTime is the timeout for all calls to the runtime together: figures that are missing
// then are read from cgroups, and a request for metrics is barely delayed.
const runtimeTime = 5 * time.Second

// ask reads the figures that the runtime reports.
func (r *run) ask(ctx context.Context, rt Runtime, pods []*runtime.PodStatus, node *Node) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTime)
	defer cancel()
	if r.all {
		node.ImageFS, node.ContainerFS = r.imageFS(ctx, rt)
	}
	r.reported = ask(ctx, rt, pods)
}

// pods returns each pod's usage.
func (r *run) pods(pods []*runtime.PodStatus) []Pod {
	list := make([]Pod, 0, len(pods)) // never reallocated
	var lacking []lack
	for _, status := range pods {
		sandbox := status.ActiveSandbox()
		if sandbox == nil {
			continue
		}
		list = append(list, r.fromRuntime(status, sandbox))
		if l := (lack{&list[len(list)-1], sandbox}); r.lacks(l) {
			lacking = append(lacking, l)
		}
	}
	if len(lacking) > 0 {
		r.fromCgroups(lacking, pods)
	}
	return list
}

// fromRuntime returns the figures of a pod that the runtime reports.
func (r *run) fromRuntime(status *runtime.PodStatus, sandbox *runtime.SandboxStatus) Pod {
	told := r.reported.sandboxes[sandbox.ID]
	p := Pod{
		Namespace: status.Namespace, Name: status.Name, UID: status.UID, StartTime: sandbox.CreatedAt,
		CPU: cpuFrom(told.GetCpu()), Memory: memoryFrom(told.GetMemory()), Processes: value(told.GetProcess().GetProcessCount()),
	}
	if r.all && sandbox.NetworkMode != runtime.NamespaceNode {
		p.Network = networkFrom(told.GetNetwork())
	}
	latest := latestOf(status, sandbox)
	for i := range status.Containers {
		c := &status.Containers[i]
		told := r.reported.containers[c.ID.ID]
		container := Container{Name: c.Name, ID: c.ID, StartTime: c.StartedAt}
		if r.all {
			container.RootFS = r.from(told.GetWritableLayer())
		}
		switch {
		case runs(c, sandbox):
			container.CPU, container.Memory = cpuFrom(told.GetCpu()), memoryFrom(told.GetMemory())
			p.Containers = append(p.Containers, container)
		case container.RootFS != nil && c == latest[c.Name]:
			p.Exited = append(p.Exited, container)
		}
	}
	p.Containers = order.Sorted(p.Containers, func(a, b *Container) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// latestOf returns, by container name, the instance whose writable layer is reported: the running
// one, otherwise the newest one that was started.
func latestOf(status *runtime.PodStatus, sandbox *runtime.SandboxStatus) map[string]*runtime.ContainerStatus {
	latest := make(map[string]*runtime.ContainerStatus, len(status.Containers))
	for i := range status.Containers {
		c := &status.Containers[i]
		before := latest[c.Name]
		switch {
		case c.State == runtime.ContainerCreated || runs(before, sandbox):
		case before == nil || runs(c, sandbox) || c.NewerThan(before):
			latest[c.Name] = c
		}
	}
	return latest
}

// runs reports whether a container runs in the given sandbox.
func runs(c *runtime.ContainerStatus, sandbox *runtime.SandboxStatus) bool {
	return c.In(sandbox) && c.State == runtime.ContainerRunning
}
