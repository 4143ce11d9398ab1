package config

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/syncpod/podspec"
)

// Logs returns the rotation policy of container logs, from containerLogMaxSize and containerLogMaxFiles. If the size is
// negative, never is true: logs are not rotated.
func Logs(c *kubelet.KubeletConfiguration) (policy logs.RotationPolicy, never bool, err error) {
	if c.ContainerLogMaxSize != "" {
		size, err := podspec.ParseQuantity(c.ContainerLogMaxSize)
		if err != nil {
			return policy, false, fmt.Errorf("containerLogMaxSize is %.200q, want an amount: %w", c.ContainerLogMaxSize, err)
		}
		if size.Sign() < 0 {
			return policy, true, nil
		}
		policy.MaxSize = max(size.Value(), 1)
	}
	if c.ContainerLogMaxFiles != nil {
		if policy.MaxFiles = int(*c.ContainerLogMaxFiles); policy.MaxFiles < 2 {
			return policy, false, fmt.Errorf("containerLogMaxFiles is %d, want 2 or more", policy.MaxFiles)
		}
	}
	return policy, false, nil
}

// Amounts reads a field such as kubeReserved.
func Amounts(field string, values map[string]string) (v1.ResourceList, error) {
	list := v1.ResourceList{}
	for name, value := range values {
		q, err := podspec.ParseQuantity(value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %s is %.200q, want an amount: %w", field, name, value, err)
		case q.Sign() < 0:
			return nil, fmt.Errorf("%s: %s is %q, want an amount that is not negative", field, name, value)
		}
		list[v1.ResourceName(name)] = q
	}
	return list, nil
}
