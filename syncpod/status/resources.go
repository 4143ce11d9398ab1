package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/podresources"
	"github.com/podsync/podsync/runtime"
)

// The minimum values for a container's cgroup, in thousandths of a CPU: values at or below
// the minimum are indistinguishable.
const (
	leastCPURequest = 2
	leastCPULimit   = 10
)

// addResources adds the allocated resources and, while the container runs, the actual ones. The actual resources are
// those that the agent set last, otherwise those that the runtime reports, otherwise the same instance's reported
// ones.
func (k *subject) addResources(s *v1.ContainerStatus, r *v1.ResourceRequirements) {
	spec := &k.spec.Resources
	s.Resources, s.AllocatedResources = r, copyOf(spec.Requests)
	r.Limits, r.Requests = copyOf(spec.Limits), copyOf(spec.Requests)
	if s.State.Running == nil {
		return
	}
	now, before, exact := k.inForce(), k.resourcesBefore(), k.current.Resources != nil
	if r.Limits != nil {
		put := listWriter{r.Limits, before.Limits, exact}
		put.cpu(now.CPULimit, leastCPULimit)
		put.memory(now.MemoryLimit)
	}
	if r.Requests != nil {
		put := listWriter{r.Requests, before.Requests, exact}
		put.cpu(now.CPURequest, leastCPURequest)
		put.memory(now.MemoryRequest)
	}
}

// addDevices adds the container's device health. It shares no memory with the Input.
func (k *subject) addDevices(s *v1.ContainerStatus) {
	for _, d := range k.Devices[k.spec.Name] {
		s.AllocatedResourcesStatus = append(s.AllocatedResourcesStatus, *d.DeepCopy())
	}
}

// copyOf returns nil only for nil: a list that the spec does not have stays absent.
func copyOf(list v1.ResourceList) v1.ResourceList { return list.DeepCopy() }

// inForce returns the running instance's actual resources.
func (k *subject) inForce() runtime.ReportedResources {
	switch set := k.current.Resources; {
	case set != nil:
		return runtime.ReportedResources{
			CPURequest: &set.CPURequest, CPULimit: &set.CPULimit,
			MemoryRequest: &set.MemoryRequest, MemoryLimit: &set.MemoryLimit,
		}
	case k.current.Reported != nil:
		return *k.current.Reported
	}
	return runtime.ReportedResources{}
}

// resourcesBefore returns the resources that were reported for the instance while it ran.
func (k *subject) resourcesBefore() v1.ResourceRequirements {
	if k.reported(k.current.ID) && k.before.State.Running != nil && k.before.Resources != nil {
		return *k.before.Resources
	}
	return v1.ResourceRequirements{}
}

// listWriter writes actual resources to a list with allocated ones. If the actual ones are
// exact, zero means none.
type listWriter struct {
	list, before v1.ResourceList
	exact        bool
}

// cpu keeps the allocated value if both it and the reported value are at or below the minimum.
func (w listWriter) cpu(milli *int64, least int64) {
	allocated := w.list[v1.ResourceCPU]
	if milli != nil && !w.exact && *milli <= least && allocated.MilliValue() <= least {
		return
	}
	w.put(v1.ResourceCPU, milli, allocated.MilliValue(), resource.NewMilliQuantity, resource.DecimalSI)
}

func (w listWriter) memory(bytes *int64) {
	allocated := w.list[v1.ResourceMemory]
	w.put(v1.ResourceMemory, bytes, allocated.Value(), resource.NewQuantity, resource.BinarySI)
}

// put keeps the allocated value's notation if the actual one is equal.
func (w listWriter) put(name v1.ResourceName, n *int64, allocated int64, of func(int64, resource.Format) *resource.Quantity, f resource.Format) {
	_, listed := w.list[name]
	switch {
	case n == nil:
		w.keep(name)
	case *n == 0 && w.exact:
		delete(w.list, name)
	case !listed || *n != allocated:
		w.list[name] = *of(*n, f)
	}
}

func (w listWriter) keep(name v1.ResourceName) {
	if q, ok := w.before[name]; ok {
		w.list[name] = q.DeepCopy()
	}
}

// maxGroups limits the groups of all containers in a pod in a status, because images choose them.
const maxGroups = 16 << 10

// addIdentity adds the instance's process user.
func (k *subject) addIdentity(s *v1.ContainerStatus) {
	if u := k.current.User; u != nil {
		groups := u.Groups[:min(len(u.Groups), maxGroups/k.containers())]
		s.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: u.UID, GID: u.GID, SupplementalGroups: slices.Clone(groups)}}
	}
	if k.current.StopSignal != "" {
		s.StopSignal = new(v1.Signal(k.current.StopSignal))
	}
}

// mounts returns the container's volume mounts. They never change, so the mounts that were
// reported before the container was created stay.
func (k *subject) mounts() []v1.VolumeMountStatus {
	if len(k.spec.VolumeMounts) == 0 {
		return nil
	}
	all := make([]v1.VolumeMountStatus, 0, len(k.spec.VolumeMounts))
	for i := range k.spec.VolumeMounts {
		m := &k.spec.VolumeMounts[i]
		all = append(all, v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly, RecursiveReadOnly: k.recursive(m)})
	}
	return all
}

// recursive returns the effective mode for a recursive read-only mount
// (KEP-3857).
func (k *subject) recursive(m *v1.VolumeMount) *v1.RecursiveReadOnlyMode {
	switch {
	case !m.ReadOnly:
		return nil
	case m.RecursiveReadOnly != nil && (*m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled ||
		*m.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible && k.RecursiveReadOnly):
		return new(v1.RecursiveReadOnlyEnabled)
	}
	return new(v1.RecursiveReadOnlyDisabled)
}

// copyMounts returns a deep copy.
func copyMounts(before []v1.VolumeMountStatus) []v1.VolumeMountStatus {
	all := slices.Clone(before)
	for i := range all {
		all[i].RecursiveReadOnly = clone(all[i].RecursiveReadOnly)
	}
	return all
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// addPodResources adds the pod's total allocated resources, and its pod-level resources if it has
// any (KEP-2837).
func (v *view) addPodResources(s *v1.PodStatus) {
	s.AllocatedResources = requested(&v.Pod.Spec)
	if r := v.Pod.Spec.Resources; r != nil {
		s.Resources = r.DeepCopy()
	}
}

func withOverhead(spec *v1.PodSpec, name v1.ResourceName) resource.Quantity {
	overhead, asked := spec.Overhead[name], podresources.Total(spec, podresources.Requests, name)
	if asked == nil {
		return overhead.DeepCopy()
	}
	sum := asked.DeepCopy()
	if !overhead.IsZero() {
		sum.Add(overhead)
	}
	return sum
}

// requested returns a pod's requests, its overhead included. Nil means none.
func requested(spec *v1.PodSpec) (total v1.ResourceList) {
	add := func(list v1.ResourceList) {
		for name := range list {
			if _, ok := total[name]; ok {
				continue
			}
			if total == nil {
				total = v1.ResourceList{}
			}
			total[name] = withOverhead(spec, name)
		}
	}
	if spec.Resources != nil {
		add(spec.Resources.Requests)
	}
	for _, containers := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			add(containers[i].Resources.Requests)
		}
	}
	add(spec.Overhead)
	return total
}
