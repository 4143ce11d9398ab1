package config

import (
	"fmt"
	"strconv"
	"strings"

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

// Threshold reads a value of evictionHard: an amount, or a part of all in percent. It is 0
// if there is none of that signal.
func Threshold(values map[string]string, signal string, all int64) (int64, error) {
	value, set := values[signal]
	if !set {
		return 0, nil
	}
	if part, ok := strings.CutSuffix(value, "%"); ok {
		percent, err := strconv.ParseFloat(part, 64)
		if err != nil || !(percent >= 0 && percent <= 100) { // NaN is neither
			return 0, fmt.Errorf("evictionHard: %s is %q, want an amount or a percentage", signal, value)
		}
		return int64(float64(all) * percent / 100), nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("evictionHard: %s is %q, want an amount or a percentage", signal, value)
	}
	return q.Value(), nil
}
