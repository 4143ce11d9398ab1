package apistatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/base/linux"
	"github.com/podsync/podsync/runtime"
)

// The least that the cgroup of a container can hold, in thousandths of a CPU: of
// values at or below it none is told from another.
const (
	leastCPURequest = 2
	leastCPULimit   = 10
)

// addResources adds what the container is allotted and, while it runs, what is in
// force: what it was last given here, or else what the runtime reports, and where that
// says nothing what was reported of this very instance before.
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

// addDevices adds how the devices of the container are. It shares nothing with the Input.
func (k *subject) addDevices(s *v1.ContainerStatus) {
	for _, d := range k.Devices[k.spec.Name] {
		s.AllocatedResourcesStatus = append(s.AllocatedResourcesStatus, *d.DeepCopy())
	}
}

// copyOf is nil for nil alone: what a spec has no list of is in no list.
func copyOf(list v1.ResourceList) v1.ResourceList { return list.DeepCopy() }

// inForce is what the running instance has.
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

// resourcesBefore are those that were reported of the instance while it ran.
func (k *subject) resourcesBefore() v1.ResourceRequirements {
	if k.reported(k.current.ID) && k.before.State.Running != nil && k.before.Resources != nil {
		return *k.before.Resources
	}
	return v1.ResourceRequirements{}
}

// listWriter puts what is in force into a list that has what is allotted. If that is
// exact, zero is none.
type listWriter struct {
	list, before v1.ResourceList
	exact        bool
}

// cpu keeps what is allotted if neither it nor what a runtime reports can be told from
// the least there is.
func (w listWriter) cpu(milli *int64, least int64) {
	allotted := w.list[v1.ResourceCPU]
	if milli != nil && !w.exact && *milli <= least && allotted.MilliValue() <= least {
		return
	}
	w.put(v1.ResourceCPU, milli, allotted.MilliValue(), resource.NewMilliQuantity, resource.DecimalSI)
}

func (w listWriter) memory(bytes *int64) {
	allotted := w.list[v1.ResourceMemory]
	w.put(v1.ResourceMemory, bytes, allotted.Value(), resource.NewQuantity, resource.BinarySI)
}

// put leaves what is allotted as it is written if as much is in force.
func (w listWriter) put(name v1.ResourceName, n *int64, allotted int64, of func(int64, resource.Format) *resource.Quantity, f resource.Format) {
	_, listed := w.list[name]
	switch {
	case n == nil:
		w.keep(name)
	case *n == 0 && w.exact:
		delete(w.list, name)
	case !listed || *n != allotted:
		w.list[name] = *of(*n, f)
	}
}

func (w listWriter) keep(name v1.ResourceName) {
	if q, ok := w.before[name]; ok {
		w.list[name] = q.DeepCopy()
	}
}

// addIdentity adds what the runtime says of the process of the instance.
func (k *subject) addIdentity(s *v1.ContainerStatus) {
	if u := k.current.User; u != nil {
		s.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: u.UID, GID: u.GID, SupplementalGroups: slices.Clone(u.Groups)}}
	}
	if k.current.StopSignal != "" {
		s.StopSignal = new(v1.Signal(k.current.StopSignal))
	}
}

// mounts are the volumes that a container is to have mounted. They never change, so
// that what was reported of them before it was made holds from then on.
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

// recursive is in force what a read-only mount asks for what is mounted below it
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

// copyMounts shares nothing with what was reported before.
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

// addPodResources adds what is allotted to the pod altogether, and what it has as a whole, if
// it has (KEP-2837).
func (v *view) addPodResources(s *v1.PodStatus) {
	s.AllocatedResources = requested(&v.Pod.Spec)
	if r := v.Pod.Spec.Resources; r != nil {
		s.Resources = r.DeepCopy()
	}
}

func withOverhead(spec *v1.PodSpec, name v1.ResourceName) resource.Quantity {
	overhead, asked := spec.Overhead[name], linux.Total(spec, linux.Requests, name)
	if asked == nil {
		return overhead.DeepCopy()
	}
	sum := asked.DeepCopy()
	if !overhead.IsZero() {
		sum.Add(overhead)
	}
	return sum
}

// requested are the requests of a pod, its overhead included. Nil is none.
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
