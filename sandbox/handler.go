package sandbox

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// LookupRuntimeHandler returns the runtime handler to run the pod's sandbox with. For a pod that names no class it returns
// "", the runtime's default, and does not call classes. pod is required. If classes is nil, a pod that names a class is
// an error.
func LookupRuntimeHandler(ctx context.Context, pod *v1.Pod, classes RuntimeClasses) (string, error) {
	if pod == nil {
		return "", errors.New("runtime handler: the pod is nil")
	}
	class := pod.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	if classes == nil {
		return "", fmt.Errorf("pod %s/%s: spec.runtimeClassName is %q, and this agent has no runtime classes", pod.Namespace, pod.Name, *class)
	}
	handler, err := classes.RuntimeHandler(ctx, *class)
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: runtime class %q: %w", pod.Namespace, pod.Name, *class, err)
	}
	return handler, nil
}
