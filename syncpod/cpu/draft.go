package cpu

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/topology"
)

// A Draft is a [topology.Provider] for the admission of one pod. If the pod is admitted, State is the new state; otherwise drop the Draft.
type Draft struct {
	Allocator *Allocator
	State     State
}

// Hints is Allocator.Hints.
func (d *Draft) Hints(pod *v1.Pod, c *v1.Container) topology.Hints {
	return d.Allocator.Hints(d.State, pod, c)
}

// Allocate adds the CPUs of a container to State.
func (d *Draft) Allocate(pod *v1.Pod, c *v1.Container, affinity topology.Hint) error {
	cpus, err := d.Allocator.Allocate(d.State, pod, c, affinity)
	if err == nil && !cpus.IsEmpty() {
		d.State = d.State.With(pod.UID, c.Name, cpus)
	}
	return err
}
