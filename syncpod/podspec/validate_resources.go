package podspec

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *validator) podResources(spec *v1.PodSpec, at *field.Path) {
	if spec.Resources == nil {
		return
	}
	v.resources(at, spec.Resources)
	for _, list := range []struct {
		name    string
		amounts v1.ResourceList
	}{{"limits", spec.Resources.Limits}, {"requests", spec.Resources.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.amounts)) {
			if !isPodLevel(name) {
				v.invalid(at.Child(list.name), name, "must be cpu, memory or huge pages")
			}
		}
	}
}

func (v *validator) resources(at *field.Path, r *v1.ResourceRequirements) {
	v.amounts(at.Child("limits"), r.Limits)
	v.amounts(at.Child("requests"), besideLimits(r))
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		at := at.Child("requests").Key(string(name))
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		switch {
		case limited && request.Cmp(limit) > 0:
			v.invalid(at, request.String(), "must be less than or equal to the limit")
		case overcommitted(name):
		case !limited:
			v.add(field.Required(at, "must have a limit, too"))
		case request.Cmp(limit) != 0:
			v.invalid(at, request.String(), "must be equal to the limit")
		}
	}
}

// besideLimits returns the requests that differ from the limits: a limit error is reported once,
// and not again for the request that defaults to it.
func besideLimits(r *v1.ResourceRequirements) v1.ResourceList {
	requests := maps.Clone(r.Requests)
	maps.DeleteFunc(requests, func(name v1.ResourceName, q resource.Quantity) bool {
		limit, limited := r.Limits[name]
		return limited && q.Cmp(limit) == 0
	})
	return requests
}

// overcommitted reports whether a node may allocate more of a resource than it has. This is so for the native
// resources except huge pages.
func overcommitted(name v1.ResourceName) bool {
	domain, _, qualified := strings.Cut(string(name), "/")
	native := !qualified || strings.HasSuffix(domain, "kubernetes.io")
	return native && !isHugePages(name)
}

func (v *validator) amounts(at *field.Path, list v1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at, q := at.Key(string(name)), list[name]
		v.invalid(at, name, validation.IsQualifiedName(string(name))...)
		switch {
		case q.Sign() < 0:
			v.invalid(at, q.String(), "must be greater than or equal to 0")
		case !overcommitted(name) && !isHugePages(name) && q.MilliValue()%1000 != 0:
			v.invalid(at, q.String(), "must be an integer")
		}
	}
}
