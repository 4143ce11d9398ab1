package stats

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// A lack is a pod with figures that the runtime does not report.
type lack struct {
	pod     *Pod
	sandbox *runtime.SandboxStatus
}

// podKey returns the finder's key of the pod's cgroup.
func podKey(uid types.UID) string { return "pod" + string(uid) }

// lacks reports whether any figure of the pod is missing.
func (r *run) lacks(l lack) bool {
	return l.pod.lacksUse() || r.lacksNetwork(l)
}

func (p *Pod) lacksUse() bool {
	lacks := !p.CPU.known() || !p.Memory.known()
	for i := range p.Containers {
		lacks = lacks || !p.Containers[i].CPU.known() || !p.Containers[i].Memory.known()
	}
	return lacks
}

func (r *run) lacksNetwork(l lack) bool {
	return r.all && l.pod.Network == nil && l.sandbox.NetworkMode != runtime.NamespaceNode
}

// fromCgroups reads missing figures from cgroups. A runtime error is reported only if the cgroups
// lack a figure too.
func (r *run) fromCgroups(lacking []lack, pods []*runtime.PodStatus) {
	keys := map[string]bool{}
	for _, l := range lacking {
		keys[podKey(l.pod.UID)], keys[l.sandbox.ID] = true, true
		for _, c := range l.pod.Containers {
			keys[c.ID.ID] = true
		}
	}
	all := maps.Clone(keys)
	for _, pod := range pods {
		if pod == nil {
			continue
		}
		all[podKey(pod.UID)] = true
		for i := range pod.Sandboxes {
			all[pod.Sandboxes[i].ID] = true
		}
		for i := range pod.Containers {
			all[pod.Containers[i].ID.ID] = true
		}
	}
	r.hierarchy = hierarchyOf(r.FS)
	r.finder.find(&r.files, r.hierarchy, keys, all, r.now)
	still := false
	for _, l := range lacking {
		r.fill(l)
		still = still || l.pod.lacksUse()
	}
	if still && r.reported.err != nil {
		r.files.errs = append(r.files.errs, r.reported.err)
	}
}

// fill reads the missing figures of a pod.
func (r *run) fill(l lack) {
	for i := range l.pod.Containers {
		c := &l.pod.Containers[i]
		r.fillOne(c.ID.ID, &c.CPU, &c.Memory)
	}
	r.fillOne(podKey(l.pod.UID), &l.pod.CPU, &l.pod.Memory)
	if r.finder.absent[podKey(l.pod.UID)] { // the cgroup may exist, and be found by the next search
		l.pod.addUp()
	}
	if r.lacksNetwork(l) {
		l.pod.Network = r.networkOf(l)
	}
}

func (r *run) fillOne(key string, cpu **CPU, memory **Memory) {
	at, ok := r.finder.known[key]
	if !ok {
		return
	}
	if !(*cpu).known() {
		*cpu = r.cpuOf(r.hierarchy, at, r.now)
	}
	if !(*memory).known() {
		*memory = r.memoryOf(r.hierarchy, at, r.now)
	}
	if *cpu == nil && *memory == nil {
		delete(r.finder.known, key) // search again next time
	}
}

// networkOf reads the network of a pod process, preferably one of the sandbox.
func (r *run) networkOf(l lack) *Network {
	ids := []string{l.sandbox.ID}
	for _, c := range l.pod.Containers {
		ids = append(ids, c.ID.ID)
	}
	for _, id := range ids {
		at, ok := r.finder.known[id]
		if !ok {
			continue
		}
		if pid := r.processOf(r.hierarchy, at); pid != "" {
			if n := r.processNetwork(r.now, pid); n != nil {
				return n
			}
		}
	}
	return nil
}

// addUp sets the usage of a pod without its own cgroup to the sum over its containers. If one
// container's usage is unknown, so is the sum.
func (p *Pod) addUp() {
	if len(p.Containers) == 0 {
		return
	}
	if !p.CPU.known() {
		p.CPU = sumCPU(p.Containers)
		p.summed = p.CPU != nil
	}
	if !p.Memory.known() {
		p.Memory = sumMemory(p.Containers)
	}
}

func sumCPU(containers []Container) *CPU {
	total := &CPU{UsageCoreNanoSeconds: new(uint64(0))}
	for i := range containers {
		c := containers[i].CPU
		if !c.known() {
			return nil
		}
		total.Time = c.Time
		total.UsageCoreNanoSeconds = sum(total.UsageCoreNanoSeconds, c.UsageCoreNanoSeconds)
	}
	return total
}

func sumMemory(containers []Container) *Memory {
	zero := func() *uint64 { return new(uint64(0)) }
	total := &Memory{UsageBytes: zero(), WorkingSetBytes: zero(), RSSBytes: zero(), PageFaults: zero(), MajorPageFaults: zero()}
	for i := range containers {
		m := containers[i].Memory
		if !m.known() {
			return nil
		}
		total.Time = m.Time
		total.UsageBytes = sum(total.UsageBytes, m.UsageBytes)
		total.WorkingSetBytes = sum(total.WorkingSetBytes, m.WorkingSetBytes)
		total.RSSBytes = sum(total.RSSBytes, m.RSSBytes)
		total.PageFaults = sum(total.PageFaults, m.PageFaults)
		total.MajorPageFaults = sum(total.MajorPageFaults, m.MajorPageFaults)
	}
	return total
}
