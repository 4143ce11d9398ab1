package env

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
)

// resource returns a request or limit for a container in the pod, as whole divisors, rounded up.
// A limit that is not set is the pod's limit, else the node's allocatable. A request that is not
// set is 0.
func (r *resolver) resource(ref *v1.ResourceFieldSelector) (string, error) {
	c := r.container
	if ref.ContainerName != "" {
		var err error
		if c, err = runtime.FindContainer(r.in.Pod, ref.ContainerName); err != nil {
			return "", fmt.Errorf("resourceFieldRef.containerName: %w", err)
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	if !known(v1.ResourceName(name)) {
		return "", unknownResource(ref.Resource)
	}
	var q resource.Quantity
	switch kind {
	case "limits":
		q = r.limit(c, v1.ResourceName(name))
	case "requests":
		q = c.Resources.Requests[v1.ResourceName(name)]
	default:
		return "", unknownResource(ref.Resource)
	}
	return divided(q, ref.Divisor, name == string(v1.ResourceCPU))
}

func unknownResource(path string) error {
	return fmt.Errorf("resourceFieldRef.resource %q is not a resource that can be referred to", path)
}

func known(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return true
	}
	return isHugePages(name)
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// limit returns the container's own limit; if it is unset or 0, the pod's (KEP-2837), then the
// node's allocatable. Huge pages have no default.
func (r *resolver) limit(c *v1.Container, name v1.ResourceName) resource.Quantity {
	own := c.Resources.Limits[name]
	if !own.IsZero() || isHugePages(name) {
		return own
	}
	if spec := r.in.Pod.Spec.Resources; spec != nil && name != v1.ResourceEphemeralStorage {
		if q := spec.Limits[name]; !q.IsZero() {
			return q
		}
	}
	return r.in.Allocatable[name]
}

// divided returns q/divisor, rounded up; a divisor of 0 counts as 1. CPU is divided in thousandths, so that the
// divisor 1m has an effect.
func divided(q, divisor resource.Quantity, thousandths bool) (string, error) {
	if divisor.Sign() < 0 {
		return "", fmt.Errorf("resourceFieldRef.divisor %s is negative", divisor.String())
	}
	if divisor.IsZero() {
		divisor = *resource.NewQuantity(1, resource.DecimalSI)
	}
	n, fits := units(q, thousandths)
	if !fits {
		return "", fmt.Errorf("resourceFieldRef.resource is %s, too large a value to be divided", q.String())
	}
	d, fits := units(divisor, thousandths)
	if !fits {
		return "", fmt.Errorf("resourceFieldRef.divisor %s is too large", divisor.String())
	}
	whole := n / d
	if n%d > 0 {
		whole++
	}
	return strconv.FormatInt(whole, 10), nil
}

// units returns q in units or thousandths, rounded up, and whether the result fits: a quantity can
// be larger than an int64, and the conversion can then even yield 0.
func units(q resource.Quantity, thousandths bool) (n int64, fits bool) {
	if thousandths {
		return q.MilliValue(), q.CmpInt64(math.MaxInt64/1000) <= 0
	}
	return q.Value(), q.CmpInt64(math.MaxInt64) <= 0
}
