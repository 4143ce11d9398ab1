// Package cached reduces the memory of object caches.
package cached

import "k8s.io/apimachinery/pkg/api/meta"

// WithoutManagedFields is a cache.TransformFunc that drops managed fields to save memory.
func WithoutManagedFields(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
	}
	return object, nil
}
