package sandbox

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// RuntimeClasses knows the runtime classes of the cluster.
type RuntimeClasses interface {
	// RuntimeHandler returns the handler of the runtime class of that name, which
	// may be empty for the runtime's default. A class that does not exist is an
	// error.
	RuntimeHandler(ctx context.Context, class string) (string, error)
}

// RuntimeClassesFunc is a function that is a [RuntimeClasses].
type RuntimeClassesFunc func(ctx context.Context, class string) (string, error)

// RuntimeHandler calls f.
func (f RuntimeClassesFunc) RuntimeHandler(ctx context.Context, class string) (string, error) {
	return f(ctx, class)
}

// RuntimeHandler returns the runtime handler to run the pod's sandbox with. It
// is "", the runtime's default, without asking classes, for a pod that names no
// class. pod is required. classes may be nil, and then a pod that names one is an error.
func RuntimeHandler(ctx context.Context, pod *v1.Pod, classes RuntimeClasses) (string, error) {
	if pod == nil {
		return "", errors.New("runtime handler: the pod is nil")
	}
	class := pod.Spec.RuntimeClassName
	if class == nil || *class == "" {
		return "", nil
	}
	if classes == nil {
		return "", fmt.Errorf("pod %s/%s: spec.runtimeClassName is %q, but there is no lookup of runtime classes", pod.Namespace, pod.Name, *class)
	}
	handler, err := classes.RuntimeHandler(ctx, *class)
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: runtime class %q: %w", pod.Namespace, pod.Name, *class, err)
	}
	return handler, nil
}
