package pinning

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/podspec/qos"
	"github.com/podsync/podsync/syncpod/topology"
)

// A Manager gives containers CPUs and memory. Its methods may be called concurrently. Create it with New.
type Manager struct {
	cpus      *cpu.Allocator
	policy    topology.Policy
	providers []Provider
	file      file
	log       logr.Logger

	// changing is held by one change of the state at a time, while Providers are called and the file is written.
	changing sync.Mutex

	mu    sync.Mutex
	state state
	// shared are the CPUs of containers without exclusive ones.
	shared  cpu.Set
	changed func()
}

var _ syncpod.CPUSets = (*Manager)(nil)

// Admit gives a pod its CPUs and memory, with a Provider's resources close to them, and returns when they are in the file. A pod
// that has them already keeps them. It returns why a pod cannot have them, with a kubelet's reason.
func (m *Manager) Admit(pod *v1.Pod) *syncpod.Rejection {
	if pod == nil {
		return nil
	}
	refusal := m.admit(pod)
	if refusal == nil {
		return nil
	}
	for _, p := range m.providers {
		if err := p.RemovePod(context.Background(), pod.UID); err != nil {
			m.log.Error(err, "resources of a pod that was not admitted are not free yet", "pod", podref.Name(pod))
		}
	}
	return &syncpod.Rejection{Reason: refusal.Reason, Message: refusal.Message}
}

func (m *Manager) admit(pod *v1.Pod) *topology.Refusal {
	m.changing.Lock()
	defer m.changing.Unlock()
	now := m.current()
	all := make([]topology.Provider, 0, len(m.providers)+2)
	for _, p := range m.providers {
		all = append(all, p)
	}
	if now.has(pod.UID) { // an earlier agent has admitted it; the memory of its init containers may be another pod's
		_, refusal := m.policy.Admit(pod, all...)
		return refusal
	}
	cpus, memory := &cpu.Draft{Allocator: m.cpus, State: now.CPUs}, &numamemory.Admission{State: now.Memory}
	if _, refusal := m.policy.Admit(pod, append(all, cpus, memory)...); refusal != nil {
		return refusal
	}
	next := state{CPUs: cpus.State, Memory: memory.State}
	if !next.has(pod.UID) {
		return nil
	}
	if err := m.change(next); err != nil {
		return &topology.Refusal{Reason: topology.ReasonUnexpected, Message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
	}
	m.log.Info("CPUs and memory allocated", "pod", podref.Name(pod), "podUID", pod.UID, "cpus", next.CPUs.Pods[pod.UID], "memory", next.Memory.Pods[pod.UID])
	return nil
}

// change writes a new state, and then makes it the current one. The caller holds changing.
func (m *Manager) change(next state) error {
	if err := m.file.write(next); err != nil {
		return fmt.Errorf("pinning: %w", err)
	}
	shared := m.cpus.Shared(next.CPUs)
	m.mu.Lock()
	moved := !shared.Equal(m.shared)
	m.state, m.shared = next, shared
	m.mu.Unlock()
	if moved {
		m.changed()
	}
	return nil
}

func (m *Manager) current() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// CPUSet returns the exclusive CPUs of a container, or else the shared ones. It also returns the NUMA nodes of the container's
// memory, if it has memory of its own.
func (m *Manager) CPUSet(pod *v1.Pod, container string) runtime.CPUSet {
	m.mu.Lock()
	own, shared, blocks := m.state.CPUs.Of(pod.UID, container), m.shared, m.state.Memory.Container(pod.UID, container)
	m.mu.Unlock()
	var nodes topology.Mask
	for _, b := range blocks {
		nodes |= b.Nodes
	}
	set := runtime.CPUSet{CPUs: shared.String(), Mems: nodes.String()}
	if !own.IsEmpty() {
		set.CPUs, set.Exclusive = own.String(), true
	}
	return set
}

// Starting frees the memory of the init containers before a container, because they have ended. If the file cannot be
// written, the memory is free later.
func (m *Manager) Starting(pod *v1.Pod, container string) {
	if len(m.current().Memory.Pods[pod.UID]) == 0 {
		return
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	now := m.current()
	memory := now.Memory.Started(pod, container)
	if reflect.DeepEqual(memory.Pods[pod.UID], now.Memory.Pods[pod.UID]) {
		return
	}
	if err := m.change(state{CPUs: now.CPUs, Memory: memory}); err != nil {
		m.log.Error(err, "the memory of init containers is not free yet", "pod", podref.Name(pod))
	}
}

// KeptPods returns the pods that have CPUs or memory, sorted.
func (m *Manager) KeptPods() ([]types.UID, error) {
	now := m.current()
	uids := slices.AppendSeq(slices.Collect(maps.Keys(now.CPUs.Pods)), maps.Keys(now.Memory.Pods))
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// Notify stores a function to call when the shared CPUs have changed.
func (m *Manager) Notify(changed func()) {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.changed = changed
}

// RemovePod frees the CPUs and the memory of a pod that does not run, and what Providers have given to it. It succeeds if the pod
// has none.
func (m *Manager) RemovePod(ctx context.Context, pod types.UID) error {
	err := m.release(pod)
	for _, p := range m.providers {
		err = errors.Join(err, p.RemovePod(ctx, pod))
	}
	return err
}

func (m *Manager) release(pod types.UID) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	now := m.current()
	if !now.has(pod) {
		return nil
	}
	if err := m.change(state{CPUs: now.CPUs.WithoutPod(pod), Memory: now.Memory.Release(pod)}); err != nil {
		return err
	}
	m.log.Info("CPUs and memory are free", "podUID", pod)
	return nil
}

// Resize is the Check of a resize.Config. It returns why a resize cannot be allocated: exclusive CPUs and memory do not change
// while a container runs, as in a kubelet.
func (m *Manager) Resize(allocated, desired *v1.Pod) error {
	if err := m.cpus.Resize(allocated, desired); err != nil {
		return err
	}
	if len(m.current().Memory.Nodes) == 0 || allocated == nil || desired == nil || qos.FromSpec(&desired.Spec) != v1.PodQOSGuaranteed {
		return nil
	}
	for c := range runtime.AllContainers(desired) {
		old, err := runtime.FindContainer(allocated, c.Name)
		if err == nil && !old.Resources.Requests.Memory().Equal(*c.Resources.Requests.Memory()) {
			return fmt.Errorf("container %q: the policy Static does not resize the memory of Guaranteed pods", c.Name)
		}
	}
	return nil
}

// CPUs returns the exclusive CPUs of a container.
func (m *Manager) CPUs(pod types.UID, container string) cpu.Set {
	return m.current().CPUs.Of(pod, container)
}

// HasCPUs reports whether a container of the pod has exclusive CPUs.
func (m *Manager) HasCPUs(pod types.UID) bool { return len(m.current().CPUs.Pods[pod]) > 0 }

// Memory returns the memory of a container. The caller must not modify it.
func (m *Manager) Memory(pod types.UID, container string) []numamemory.Block {
	return m.current().Memory.Container(pod, container)
}

// Allocatable returns the CPUs and the memory that pods can get, whether or not they have them.
func (m *Manager) Allocatable() (cpu.Set, []numamemory.Block) {
	return m.cpus.Allocatable(), m.current().Memory.Allocatable()
}
