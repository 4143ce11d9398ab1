package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// objects caches the objects with one kind, nil for those that do not exist.
type objects[T any] map[string]*T

// get returns an object, nil if none has that name. The caller counts a new object's bytes.
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

// configMap returns a ConfigMap, nil if none has that name.
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

func secretError(name string, err error) error { return fmt.Errorf("%s %q: %w", "Secret", name, err) }

// secret returns a Secret, nil if none has that name.
func (r *resolver) secret(ctx context.Context, name string) (*v1.Secret, error) {
	if r.from.Secrets == nil {
		return nil, secretError(name, errors.New("there is no source of Secrets (syncpod.Config.Objects.Secrets)"))
	}
	s, isNew, err := r.secrets.get(ctx, r.in.Pod, name, r.from.Secrets.Secret)
	if isNew {
		err = r.spend(bytesOf(s.Data))
	}
	if err != nil {
		return nil, secretError(name, err)
	}
	return s, nil
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
		r.reveal(string(value))
		return string(value), true, nil
	}
	return missing(ref.Optional, "key %q in Secret %q", ref.Key, ref.Name)
}

func (r *resolver) fileKey(ctx context.Context, ref *v1.FileKeySelector) (string, bool, error) {
	if r.in.FileKey == nil {
		return "", false, fmt.Errorf("key %q of file %q in volume %q: there is no source of file keys (syncpod.Config.Root)", ref.Key, ref.Path, ref.VolumeName)
	}
	value, err := r.in.FileKey(ctx, r.in.Pod, ref)
	if NotFound(err) {
		return missing(ref.Optional, "key %q of file %q in volume %q", ref.Key, ref.Path, ref.VolumeName)
	}
	if err != nil {
		return "", false, fmt.Errorf("key %q of file %q in volume %q: %w", ref.Key, ref.Path, ref.VolumeName, err)
	}
	return value, true, nil
}

// missing returns the result for an object that does not exist: nothing if it is optional, and otherwise an error.
func missing(optional *bool, format string, names ...any) (string, bool, error) {
	if optional != nil && *optional {
		return "", false, nil
	}
	return "", false, fmt.Errorf("%s: %w", fmt.Sprintf(format, names...), ErrNotFound)
}

// envFrom sets a variable for each key in a ConfigMap or Secret. Keys that cannot be a variable's name are
// skipped: the object may have other uses, too.
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
		values := texts(s.Data)
		for key, value := range values {
			if isName(f.Prefix + key) {
				r.reveal(value)
			}
		}
		return values, nil
	}
	return nil, nil
}

// reveal reports a Secret's value to the caller.
func (r *resolver) reveal(value string) {
	if r.in.OnSecret != nil {
		r.in.OnSecret(value)
	}
}

func texts(data map[string][]byte) map[string]string {
	m := make(map[string]string, len(data))
	for key, value := range data {
		m[key] = string(value)
	}
	return m
}

// isName reports whether s can be a variable's name: printable ASCII without
// "=" (KEP-4369).
func isName(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '=' {
			return false
		}
	}
	return s != ""
}
