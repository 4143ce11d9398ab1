package env

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sources provide values from outside the pod. Each may be nil: then a reference to it is an error, and
// without Services there are no variables for services.
type Sources struct {
	ConfigMaps ConfigMaps
	Secrets    Secrets
	Services   Services
}

// ConfigMaps gets ConfigMaps.
type ConfigMaps interface {
	// ConfigMap returns the ConfigMap with that name, which the caller must not modify. If it
	// does not exist, the error is an API status with the reason NotFound, as in client-go, or
	// wraps ErrNotFound.
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Secrets gets Secrets.
type Secrets interface {
	// Secret returns the Secret with that name, which the caller must not modify. If it does
	// not exist, the error is an API status with the reason NotFound, as in client-go, or
	// wraps ErrNotFound. An error must not contain a value.
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Services lists Services.
type Services interface {
	// Services returns the Services in a namespace, in any order. The caller must not modify them.
	Services(ctx context.Context, namespace string) ([]*v1.Service, error)
}

// ConfigMapsFunc is a function that is a [ConfigMaps].
type ConfigMapsFunc func(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)

// ConfigMap calls f.
func (f ConfigMapsFunc) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return f(ctx, namespace, name)
}

// SecretsFunc is a function that is a [Secrets].
type SecretsFunc func(ctx context.Context, namespace, name string) (*v1.Secret, error)

// Secret calls f.
func (f SecretsFunc) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return f(ctx, namespace, name)
}

// ServicesFunc is a function that is a [Services].
type ServicesFunc func(ctx context.Context, namespace string) ([]*v1.Service, error)

// Services calls f.
func (f ServicesFunc) Services(ctx context.Context, namespace string) ([]*v1.Service, error) {
	return f(ctx, namespace)
}

// ErrNotFound is wrapped by a source's error if a ConfigMap, Secret, file or key does not exist. It
// may be created later.
var ErrNotFound = errors.New("not found")

// NotFound reports whether an error means that an object does not exist: it wraps ErrNotFound, or
// is an API status with the reason NotFound.
func NotFound(err error) bool {
	var status interface{ Status() metav1.Status }
	return errors.Is(err, ErrNotFound) ||
		errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonNotFound
}

// Unavailable reports whether an error from a source says nothing about the object: the server cannot be reached, does not
// work, or cannot authenticate the caller, for example after the node's client certificate has expired. Any other API
// status is the server's answer.
func Unavailable(err error) bool {
	var status interface{ Status() metav1.Status }
	if err == nil || NotFound(err) {
		return false
	}
	if !errors.As(err, &status) {
		return true
	}
	switch s := status.Status(); s.Reason {
	case metav1.StatusReasonInternalError, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonUnauthorized:
		return true
	default:
		return s.Code >= 500
	}
}
