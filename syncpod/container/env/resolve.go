package env

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// Var is one environment variable. The value may come from a Secret: do not log it.
type Var struct {
	Name, Value string
}

// String returns the name alone, so that a value does not reach a log by accident.
func (v Var) String() string { return v.Name + "=..." }

// GoString is String, for the verb %#v.
func (v Var) GoString() string { return v.String() }

// Input is the input for [MakeEnvironment], in addition to the sources.
type Input struct {
	// Pod is the pod, required.
	Pod *v1.Pod
	// Container names one among the pod's init, regular or ephemeral containers. Required.
	Container string
	// PodIPs are the pod's addresses, the primary first: its sandbox's, or the node's for a pod on
	// the node's network. They may still be unknown; a variable that refers to them is then empty.
	PodIPs []string
	// HostIPs are the node's addresses, the primary first. If there are none, a variable that
	// refers to them is an error.
	HostIPs []string
	// Allocatable are the node's resources for pods: a resourceFieldRef's value for a limit that
	// is not set.
	Allocatable v1.ResourceList
	// MasterNamespace is the namespace with the service "kubernetes", whose variables every pod
	// gets. "" means "default".
	MasterNamespace string
	// FileKey returns the value of a key of an env file in the pod's volumes (KEP-3721). If the file or the key does not
	// exist, the error wraps ErrNotFound; it must not contain a value. Nil makes such a key an error.
	FileKey func(ctx context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error)
	// OnSecret, if set, is called with each Secret value that becomes a variable, so that the caller can remove the
	// values from texts that may repeat them.
	OnSecret func(value string)
}

// MakeEnvironment returns a container's environment. The package documentation describes order and
// precedence.
//
// An error is an [*Error] unless the input itself is incomplete. The context is only passed to the
// sources.
func MakeEnvironment(ctx context.Context, in Input, from Sources) ([]Var, error) {
	if in.Pod == nil {
		return nil, errors.New("env: Input.Pod is required")
	}
	c, err := runtime.FindContainer(in.Pod, in.Container)
	if err != nil {
		return nil, fmt.Errorf("env of pod %s/%s: %w", in.Pod.Namespace, in.Pod.Name, err)
	}
	r := &resolver{in: &in, container: c, from: from, vars: newSet(), room: maxRead, configMaps: objects[v1.ConfigMap]{}, secrets: objects[v1.Secret]{}}
	if err := r.services(ctx); err != nil {
		return nil, r.wrap("service variables", err)
	}
	for i := range c.EnvFrom {
		if err := r.envFrom(ctx, &c.EnvFrom[i]); err != nil {
			return nil, r.wrap(fmt.Sprintf("envFrom[%d]", i), err)
		}
	}
	for i := range c.Env {
		if err := r.env(ctx, &c.Env[i]); err != nil {
			return nil, r.wrap("variable "+c.Env[i].Name, err)
		}
	}
	return r.vars.list, nil
}

// Error names the container and the variable that could not be resolved, and the cause.
type Error struct {
	Namespace, Pod, Container string
	// Item is the part that could not be resolved: "variable X", "envFrom[2]", or "service
	// variables".
	Item string
	Err  error
}

// Error names the pod, the container and the variable.
func (e *Error) Error() string {
	return fmt.Sprintf("env of pod %s/%s, container %s: %s: %v", e.Namespace, e.Pod, e.Container, e.Item, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// resolver is one call to MakeEnvironment.
type resolver struct {
	in         *Input
	container  *v1.Container
	from       Sources
	vars       *set
	room       int // the bytes left from maxRead
	configMaps objects[v1.ConfigMap]
	secrets    objects[v1.Secret]
}

func (r *resolver) wrap(item string, err error) error {
	return &Error{Namespace: r.in.Pod.Namespace, Pod: r.in.Pod.Name, Container: r.container.Name, Item: item, Err: err}
}

// env sets one variable from the spec. If its optional reference leads nowhere, the variable
// keeps its previous value.
func (r *resolver) env(ctx context.Context, e *v1.EnvVar) error {
	if e.ValueFrom == nil || e.Value != "" {
		value, ok := Expand(e.Value, r.vars.left(e.Name), r.vars.lookup)
		if !ok {
			return r.vars.tooLong(e.Name)
		}
		return r.set(e.Name, value)
	}
	value, ok, err := r.valueFrom(ctx, e.ValueFrom)
	if err != nil {
		return err
	}
	if !ok {
		return nil
	}
	return r.set(e.Name, value)
}

func (r *resolver) set(name, value string) error {
	if err := r.spend(size(name, value)); err != nil {
		return err
	}
	return r.vars.set(name, value)
}

func (r *resolver) valueFrom(ctx context.Context, s *v1.EnvVarSource) (value string, ok bool, err error) {
	switch {
	case s.FieldRef != nil:
		value, err = r.field(s.FieldRef)
		return value, true, err
	case s.ResourceFieldRef != nil:
		value, err = r.resource(s.ResourceFieldRef)
		return value, true, err
	case s.ConfigMapKeyRef != nil:
		return r.configMapKey(ctx, s.ConfigMapKeyRef)
	case s.SecretKeyRef != nil:
		return r.secretKey(ctx, s.SecretKeyRef)
	case s.FileKeyRef != nil:
		return r.fileKey(ctx, s.FileKeyRef)
	}
	return "", false, errors.New("valueFrom names no source that is known")
}
