package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sources provide values from outside the pod. Each may be nil: a reference to it is then an error,
// and without Services there are no variables of services.
type Sources struct {
	ConfigMaps ConfigMaps
	Secrets    Secrets
	Services   Services
	FileKeys   FileKeys
}

// ConfigMaps gets ConfigMaps.
type ConfigMaps interface {
	// ConfigMap returns the ConfigMap of that name, which the caller must not modify. If it does
	// not exist, the error is an API status with the reason NotFound, as in client-go, or wraps
	// ErrNotFound.
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// Secrets gets Secrets.
type Secrets interface {
	// Secret returns the Secret of that name, which the caller must not modify. If it does not
	// exist, the error is an API status with the reason NotFound, as in client-go, or wraps
	// ErrNotFound. An error must not contain a value.
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Services lists Services.
type Services interface {
	// Services returns the Services of a namespace, in any order. The caller must not modify them.
	Services(ctx context.Context, namespace string) ([]*v1.Service, error)
}

// FileKeys reads variables from files in the pod's volumes (KEP-3721).
type FileKeys interface {
	// FileKey returns the value of a key of an env file. If the file or the key
	// does not exist the error wraps ErrNotFound. An error must not hold a value.
	FileKey(ctx context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error)
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

// FileKeysFunc is a function that is a [FileKeys].
type FileKeysFunc func(ctx context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error)

// FileKey calls f.
func (f FileKeysFunc) FileKey(ctx context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error) {
	return f(ctx, pod, ref)
}

// objects caches the objects of a kind, nil for those that do not exist.
type objects[T any] map[string]*T

// get returns nil if there is no object of that name. The caller counts a new one.
func (o objects[T]) get(ctx context.Context, pod *v1.Pod, name string, ask func(ctx context.Context, namespace, name string) (*T, error)) (object *T, isNew bool, err error) {
	if object, known := o[name]; known {
		return object, false, nil
	}
	object, err = ask(ctx, pod.Namespace, name)
	if NotFound(err) {
		object, err = nil, nil
	}
	if err != nil {
		return nil, false, err
	}
	o[name] = object
	return object, object != nil, nil
}

// configMap returns nil if there is no ConfigMap of that name.
func (r *resolver) configMap(ctx context.Context, name string) (*v1.ConfigMap, error) {
	if r.from.ConfigMaps == nil {
		return nil, fmt.Errorf("ConfigMap %q: there is no source of ConfigMaps (syncpod.Config.Objects.ConfigMaps)", name)
	}
	cm, isNew, err := r.configMaps.get(ctx, r.in.Pod, name, r.from.ConfigMaps.ConfigMap)
	if isNew {
		err = r.spend(bytesOf(cm.Data) + bytesOf(cm.BinaryData))
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %q: %w", name, err)
	}
	return cm, nil
}

// secret returns nil if there is no Secret of that name.
func (r *resolver) secret(ctx context.Context, name string) (*v1.Secret, error) {
	if r.from.Secrets == nil {
		return nil, fmt.Errorf("Secret %q: there is no source of Secrets (syncpod.Config.Objects.Secrets)", name)
	}
	s, isNew, err := r.secrets.get(ctx, r.in.Pod, name, r.from.Secrets.Secret)
	if isNew {
		err = r.spend(bytesOf(s.Data))
	}
	if err != nil {
		return nil, fmt.Errorf("Secret %q: %w", name, err)
	}
	return s, nil
}

// NotFound reports whether an error means that an object does not exist: it wraps ErrNotFound, or
// is an API status with the reason NotFound.
func NotFound(err error) bool {
	var status interface{ Status() metav1.Status }
	return errors.Is(err, ErrNotFound) ||
		errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonNotFound
}

func (r *resolver) configMapKey(ctx context.Context, ref *v1.ConfigMapKeySelector) (string, bool, error) {
	cm, err := r.configMap(ctx, ref.Name)
	if err != nil {
		return "", false, err
	}
	if cm == nil {
		return missing(ref.Optional, "ConfigMap %q", ref.Name)
	}
	if value, ok := cm.Data[ref.Key]; ok {
		return value, true, nil
	}
	return missing(ref.Optional, "key %q in ConfigMap %q", ref.Key, ref.Name)
}

func (r *resolver) secretKey(ctx context.Context, ref *v1.SecretKeySelector) (string, bool, error) {
	s, err := r.secret(ctx, ref.Name)
	if err != nil {
		return "", false, err
	}
	if s == nil {
		return missing(ref.Optional, "Secret %q", ref.Name)
	}
	if value, ok := s.Data[ref.Key]; ok {
		return string(value), true, nil
	}
	return missing(ref.Optional, "key %q in Secret %q", ref.Key, ref.Name)
}

func (r *resolver) fileKey(ctx context.Context, ref *v1.FileKeySelector) (string, bool, error) {
	if r.from.FileKeys == nil {
		return "", false, fmt.Errorf("key %q of file %q in volume %q: there is no source of file keys (syncpod.Config.Objects.FileKeys)", ref.Key, ref.Path, ref.VolumeName)
	}
	value, err := r.from.FileKeys.FileKey(ctx, r.in.Pod, ref)
	if NotFound(err) {
		return missing(ref.Optional, "key %q of file %q in volume %q", ref.Key, ref.Path, ref.VolumeName)
	}
	if err != nil {
		return "", false, fmt.Errorf("key %q of file %q in volume %q: %w", ref.Key, ref.Path, ref.VolumeName, err)
	}
	return value, true, nil
}

// missing is the answer for what does not exist: nothing, or an error if it was
// required.
func missing(optional *bool, format string, names ...any) (string, bool, error) {
	if optional != nil && *optional {
		return "", false, nil
	}
	return "", false, fmt.Errorf("%s: %w", fmt.Sprintf(format, names...), ErrNotFound)
}

// envFrom sets a variable for each key of a ConfigMap or Secret. Keys that make
// no name of a variable are passed over: the source may serve other ends too.
func (r *resolver) envFrom(ctx context.Context, f *v1.EnvFromSource) error {
	data, err := r.dataFrom(ctx, f)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if name := f.Prefix + key; isName(name) {
			if err := r.vars.setNamed(name, data[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *resolver) dataFrom(ctx context.Context, f *v1.EnvFromSource) (map[string]string, error) {
	switch {
	case f.ConfigMapRef != nil:
		cm, err := r.configMap(ctx, f.ConfigMapRef.Name)
		if err != nil {
			return nil, err
		}
		if cm == nil {
			_, _, err := missing(f.ConfigMapRef.Optional, "ConfigMap %q", f.ConfigMapRef.Name)
			return nil, err
		}
		return cm.Data, r.spend(bytesOf(cm.Data))
	case f.SecretRef != nil:
		s, err := r.secret(ctx, f.SecretRef.Name)
		if err != nil {
			return nil, err
		}
		if s == nil {
			_, _, err := missing(f.SecretRef.Optional, "Secret %q", f.SecretRef.Name)
			return nil, err
		}
		if err := r.spend(bytesOf(s.Data)); err != nil {
			return nil, err
		}
		return texts(s.Data), nil
	}
	return nil, nil
}

func texts(data map[string][]byte) map[string]string {
	m := make(map[string]string, len(data))
	for key, value := range data {
		m[key] = string(value)
	}
	return m
}

// isName reports whether s can be the name of a variable: printable ASCII
// without "=" (KEP-4369).
func isName(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '=' {
			return false
		}
	}
	return s != ""
}
