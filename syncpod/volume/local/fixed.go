package local

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// The object kinds whose contents volumes have.
const (
	kindConfigMap = "configMap"
	kindSecret    = "secret"
)

// fixed are the immutable objects that pods have received, by the pod's directory. A pod's copy never
// changes, even if another object gets the same name (KEP-1412).
type fixed struct {
	mu   sync.Mutex
	pods map[string]map[objectKey]any
}

type objectKey struct{ kind, name string }

func (f *fixed) find(dir string, key objectKey) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[filepath.Clean(dir)][key]
}

func (f *fixed) remember(dir string, key objectKey, object any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir = filepath.Clean(dir)
	if f.pods == nil {
		f.pods = map[string]map[objectKey]any{}
	}
	if f.pods[dir] == nil {
		f.pods[dir] = map[objectKey]any{}
	}
	f.pods[dir][key] = object
}

func (f *fixed) forget(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, filepath.Clean(dir))
}

// get returns a ConfigMap or Secret: the pod's copy if that is immutable, otherwise its source's
// current one. A source may return nil for not found.
func get[T any](ctx context.Context, c *content, key objectKey, from func(ctx context.Context, namespace, name string) (*T, error)) (*T, error) {
	if known, ok := c.fixed.find(c.dir, key).(*T); ok {
		return known, nil
	}
	object, err := from(ctx, c.pod.Namespace, key.name)
	if err == nil && ctx.Err() != nil {
		return nil, ctx.Err() // the caller has given up, and the pod may be gone
	}
	if err == nil && object == nil {
		err = env.ErrNotFound
	}
	if err == nil && isImmutable(object) {
		c.fixed.remember(c.dir, key, object)
		return object, nil
	}
	c.nextAt(time.Now().Add(refreshInterval))
	return object, err
}

func isImmutable(object any) bool {
	var immutable *bool
	switch o := object.(type) {
	case *v1.ConfigMap:
		immutable = o.Immutable
	case *v1.Secret:
		immutable = o.Immutable
	}
	return immutable != nil && *immutable
}
