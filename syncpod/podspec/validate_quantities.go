package podspec

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podsync/podsync/internal/quantities"
)

// ValidateQuantities returns the quantities in a pod's spec or status that take too long to
// compare, add or print, or nil. 1e1666660 is such a quantity: the API's parser accepts it quickly.
// The error is like [Validate]'s, but does not contain the quantities.
//
// [Validate] and [ValidateAdmitted] include this check. A program with pods from other sources must
// call it before it uses their quantities. Nil is valid.
func ValidateQuantities(pod *v1.Pod) error {
	if pod == nil {
		return nil
	}
	var v validator
	v.quantities(pod)
	return v.errs.ToAggregate()
}

// ParseQuantity parses a quantity that a program has as text: of its configuration, for example. It refuses texts
// that the API's parser would not finish, and quantities that [ValidateQuantities] refuses.
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := quantities.Check(text); err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, quantities.ErrFormat
	}
	return q, nil
}

// quantities checks all quantities of a pod, and reports whether the other rules may compute with
// them.
func (v *validator) quantities(pod *v1.Pod) bool {
	spec, status := field.NewPath("spec"), field.NewPath("status")
	for m := range members(&pod.Spec) {
		v.requirements(m.path.Child("resources"), &m.Resources)
		for i := range m.Env {
			if from := m.Env[i].ValueFrom; from != nil {
				v.divisor(m.path.Child("env").Index(i).Child("valueFrom"), from.ResourceFieldRef)
			}
		}
	}
	v.requirements(spec.Child("resources"), pod.Spec.Resources)
	v.bounded(spec.Child("overhead"), pod.Spec.Overhead)
	for i := range pod.Spec.Volumes {
		v.volumeQuantities(spec.Child("volumes").Index(i), &pod.Spec.Volumes[i].VolumeSource)
	}
	v.requirements(status.Child("resources"), pod.Status.Resources)
	v.bounded(status.Child("allocatedResources"), pod.Status.AllocatedResources)
	v.statusQuantities(status.Child("initContainerStatuses"), pod.Status.InitContainerStatuses)
	v.statusQuantities(status.Child("containerStatuses"), pod.Status.ContainerStatuses)
	v.statusQuantities(status.Child("ephemeralContainerStatuses"), pod.Status.EphemeralContainerStatuses)
	for i := range pod.Status.NodeAllocatableResourceClaimStatuses {
		v.claimQuantities(status.Child("nodeAllocatableResourceClaimStatuses").Index(i), &pod.Status.NodeAllocatableResourceClaimStatuses[i])
	}
	return len(v.errs) == 0
}

func (v *validator) claimQuantities(at *field.Path, s *v1.NodeAllocatableResourceClaimStatus) {
	for i, m := range s.Mapping {
		v.optionalQuantity(at.Child("mapping").Index(i).Child("quantity"), m.Quantity)
	}
	for i, o := range s.Overhead {
		v.optionalQuantity(at.Child("overhead").Index(i).Child("perPod"), o.PerPod)
		v.optionalQuantity(at.Child("overhead").Index(i).Child("perContainer"), o.PerContainer)
	}
}

func (v *validator) volumeQuantities(at *field.Path, s *v1.VolumeSource) {
	if s.EmptyDir != nil {
		v.optionalQuantity(at.Child("emptyDir", "sizeLimit"), s.EmptyDir.SizeLimit)
	}
	if s.DownwardAPI != nil {
		v.divisors(at.Child("downwardAPI", "items"), s.DownwardAPI.Items)
	}
	if s.Projected != nil {
		for i, source := range s.Projected.Sources {
			if source.DownwardAPI != nil {
				v.divisors(at.Child("projected", "sources").Index(i).Child("downwardAPI", "items"), source.DownwardAPI.Items)
			}
		}
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		r, at := s.Ephemeral.VolumeClaimTemplate.Spec.Resources, at.Child("ephemeral", "volumeClaimTemplate", "spec", "resources")
		v.bounded(at.Child("limits"), r.Limits)
		v.bounded(at.Child("requests"), r.Requests)
	}
}

func (v *validator) divisors(at *field.Path, items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		v.divisor(at.Index(i), items[i].ResourceFieldRef)
	}
}

func (v *validator) divisor(at *field.Path, ref *v1.ResourceFieldSelector) {
	if ref != nil {
		v.quantity(at.Child("resourceFieldRef", "divisor"), ref.Divisor)
	}
}

func (v *validator) statusQuantities(at *field.Path, statuses []v1.ContainerStatus) {
	for i := range statuses {
		v.requirements(at.Index(i).Child("resources"), statuses[i].Resources)
		v.bounded(at.Index(i).Child("allocatedResources"), statuses[i].AllocatedResources)
	}
}

func (v *validator) requirements(at *field.Path, r *v1.ResourceRequirements) {
	if r != nil {
		v.bounded(at.Child("limits"), r.Limits)
		v.bounded(at.Child("requests"), r.Requests)
	}
}

// bounded checks a list's quantities, and the sizes in the names of huge pages.
func (v *validator) bounded(at *field.Path, list v1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
			if err := quantities.Check(size); err != nil { // the size is parsed for the pod's cgroup
				v.invalid(at.Key(string(name)), name, err.Error())
			}
		}
		v.quantity(at.Key(string(name)), list[name])
	}
}

func (v *validator) optionalQuantity(at *field.Path, q *resource.Quantity) {
	if q != nil {
		v.quantity(at, *q)
	}
}

func (v *validator) quantity(at *field.Path, q resource.Quantity) {
	if err := quantities.CheckParsed(q); err != nil {
		v.invalid(at, field.OmitValueType{}, err.Error())
	}
}
