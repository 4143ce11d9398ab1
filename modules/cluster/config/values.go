package config

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts reads a field such as kubeReserved.
func Amounts(field string, values map[string]string) (v1.ResourceList, error) {
	list := v1.ResourceList{}
	for name, value := range values {
		q, err := resource.ParseQuantity(value)
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %s is %q, want an amount", field, name, value)
		}
		list[v1.ResourceName(name)] = q
	}
	return list, nil
}
