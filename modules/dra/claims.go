package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	// maxClaims is the maximum number of claims of a pod. maxDrivers is the maximum number of drivers of a claim: the API allows
	// 32 devices.
	maxClaims, maxDrivers = 256, 32
	// maxDriver is the maximum length of a driver's name, as in the API.
	maxDriver = 63
)

// A want is a claim that a pod uses.
type want struct {
	record *record // as it would be without calls
	use    use
}

// usedNames returns the names in spec.resourceClaims that containers of the pod use, in the order of the spec.
func usedNames(pod *v1.Pod) (names []string) {
	used := map[string]bool{}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, c := range containers[i].Resources.Claims {
				used[c.Name] = true
			}
		}
	}
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].Name; used[name] {
			names = append(names, name)
		}
	}
	return names
}

// claimName returns the name of the claim of an entry in spec.resourceClaims. owned means that the claim was made from a template,
// for this pod. An empty name means that the pod needs no claim.
func claimName(pod *v1.Pod, c *v1.PodResourceClaim) (name string, owned bool, err error) {
	switch {
	case c.ResourceClaimName != nil:
		return *c.ResourceClaimName, false, nil
	case c.ResourceClaimTemplateName == nil:
		return "", false, fmt.Errorf("pod claim %s: neither resourceClaimName nor resourceClaimTemplateName is set", c.Name)
	}
	for i := range pod.Status.ResourceClaimStatuses {
		if s := &pod.Status.ResourceClaimStatuses[i]; s.Name == c.Name {
			if s.ResourceClaimName == nil {
				return "", true, nil
			}
			return *s.ResourceClaimName, true, nil
		}
	}
	return "", true, fmt.Errorf("pod claim %s: ResourceClaim not created yet", c.Name)
}

// resolve gets the claims that a pod uses, by UID.
func (m *Manager) resolve(ctx context.Context, pod *v1.Pod) (map[types.UID]*want, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	used := usedNames(pod)
	if len(used) > maxClaims {
		return nil, fmt.Errorf("the pod uses %d claims, more than %d", len(used), maxClaims)
	}
	wants := map[types.UID]*want{}
	var errs []error
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		if !slices.Contains(used, c.Name) {
			continue
		}
		name, owned, err := claimName(pod, c)
		if err == nil && name != "" {
			err = m.want(ctx, wants, pod, name, owned, use{Names: []string{c.Name}})
		}
		errs = append(errs, err)
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		var u use
		for i := range s.RequestMappings {
			u.Extended = append(u.Extended, extended{Container: s.RequestMappings[i].ContainerName, Request: s.RequestMappings[i].RequestName})
		}
		errs = append(errs, m.want(ctx, wants, pod, s.ResourceClaimName, true, u))
	}
	return wants, errors.Join(errs...)
}

// want gets a claim, and adds it to wants if the pod may use it.
func (m *Manager) want(ctx context.Context, wants map[types.UID]*want, pod *v1.Pod, name string, owned bool, u use) error {
	claim, err := m.config.Claims.ResourceClaim(ctx, pod.Namespace, name)
	if err != nil {
		return fmt.Errorf("failed to fetch ResourceClaim %s referenced by pod %s: %w", name, pod.Name, err)
	}
	if err := mayUse(pod, claim, name, owned); err != nil {
		return err
	}
	r, err := newRecord(claim)
	if err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", name, err)
	}
	if w := wants[claim.UID]; w != nil {
		w.use.Names, w.use.Extended = append(w.use.Names, u.Names...), append(w.use.Extended, u.Extended...)
		return nil
	}
	wants[claim.UID] = &want{record: r, use: u}
	return nil
}

// mayUse returns an error if a pod may not use a claim.
func mayUse(pod *v1.Pod, claim *resourcev1.ResourceClaim, name string, owned bool) error {
	if claim == nil || claim.Name != name || claim.Namespace != pod.Namespace {
		return fmt.Errorf("failed to fetch ResourceClaim %s referenced by pod %s: the answer is another claim", name, pod.Name)
	}
	if owner := metav1.GetControllerOf(claim); owned && (owner == nil || owner.UID != pod.UID) {
		return fmt.Errorf("ResourceClaim %s was not created for pod %s", name, pod.Name)
	}
	reserved := slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return r.APIGroup == "" && r.Resource == "pods" && r.UID == pod.UID
	})
	switch {
	case claim.Status.Allocation == nil:
		return fmt.Errorf("ResourceClaim %s is not allocated", name)
	case !reserved:
		return fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", pod.Name, pod.UID, name, claim.UID)
	}
	return nil
}

// newRecord returns the record of a claim that no driver was called for.
func newRecord(claim *resourcev1.ResourceClaim) (*record, error) {
	if err := hostfs.Element("metadata.uid", string(claim.UID)); err != nil { // it becomes the name of a file
		return nil, err
	}
	r := &record{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, Drivers: map[string]driverState{}, Pods: map[types.UID]use{}}
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if err := checkDriver(result.Driver); err != nil {
			return nil, err
		}
		d, known := r.Drivers[result.Driver]
		prepare, unprepare := skips(result, resourcev1.SkipNodeOperationNodePrepareResources), skips(result, resourcev1.SkipNodeOperationNodeUnprepareResources)
		d.SkipPrepare, d.SkipUnprepare = prepare && (!known || d.SkipPrepare), unprepare && (!known || d.SkipUnprepare)
		r.Drivers[result.Driver] = d
	}
	if len(r.Drivers) > maxDrivers {
		return nil, fmt.Errorf("its devices have %d drivers, more than %d", len(r.Drivers), maxDrivers)
	}
	return r, nil
}

// skips reports whether a driver needs no such call for an allocated device.
func skips(result *resourcev1.DeviceRequestAllocationResult, op resourcev1.SkipNodeOperation) bool {
	return slices.Contains(result.SkipNodeOperations, op) || slices.Contains(result.SkipNodeOperations, resourcev1.SkipNodeOperationAll)
}
