package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// resize says which running container's resources differ from its spec.
type resize struct {
	cpu, memory bool
	moreMemory  bool
}

func (r resize) any() bool { return r.cpu || r.memory }

// judgeResize decides on a running container that needs no other change: whether its resources
// match its spec, and if not, whether they change in place or by a restart (KEP-1287). A container
// whose resources are unknown, or whose pod is being deleted, is left as it is.
func (d *decision) judgeResize(spec *v1.Container, c *runtime.ContainerStatus) verdict {
	if c.Resources == nil || d.Pod.DeletionTimestamp != nil {
		return verdict{why: StillRunning}
	}
	want := runtime.ResourcesOf(&d.Pod.Spec, spec)
	need := resize{
		cpu:    c.Resources.CPURequest != want.CPURequest || c.Resources.CPULimit != want.CPULimit,
		memory: c.Resources.MemoryRequest != want.MemoryRequest || c.Resources.MemoryLimit != want.MemoryLimit,
	}
	if need.cpu && resizeRestarts(spec, v1.ResourceCPU) || need.memory && resizeRestarts(spec, v1.ResourceMemory) {
		return verdict{kill: true, start: true, why: ResizeRestart}
	}
	before := c.Resources.MemoryLimit
	need.moreMemory = before != 0 && (want.MemoryLimit == 0 || want.MemoryLimit > before)
	return verdict{why: StillRunning, resize: need}
}

// resizeRestarts reports whether a container's resize policy asks for a restart
// when that resource changes. Without a policy it does not.
func resizeRestarts(spec *v1.Container, name v1.ResourceName) bool {
	for _, p := range spec.ResizePolicy {
		if p.ResourceName == name {
			return p.RestartPolicy == v1.RestartContainer
		}
	}
	return false
}
