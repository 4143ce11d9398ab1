package env

import (
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// FieldValue returns the field in in.Pod that ref names. It is for values other than variables: files in a downward API
// volume have the same values.
func FieldValue(in Input, ref *v1.ObjectFieldSelector) (string, error) {
	if in.Pod == nil || ref == nil {
		return "", errors.New("env: Input.Pod and a fieldRef are required")
	}
	return (&resolver{in: &in}).field(ref)
}

// ResourceValue returns the request or limit that ref names, for the container that ref names, or else in.Container. It
// is for values other than variables.
func ResourceValue(in Input, ref *v1.ResourceFieldSelector) (string, error) {
	if in.Pod == nil || ref == nil {
		return "", errors.New("env: Input.Pod and a resourceFieldRef are required")
	}
	r := &resolver{in: &in}
	if ref.ContainerName == "" {
		var err error
		if r.container, err = runtime.FindContainer(in.Pod, in.Container); err != nil {
			return "", err
		}
	}
	return r.resource(ref)
}
