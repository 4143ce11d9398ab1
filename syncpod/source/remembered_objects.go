package source

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/podspec"
)

// askTimeout is how long who has an object may take to answer before what is remembered
// of it counts.
const askTimeout = 2 * time.Second

// ConfigMap returns a ConfigMap as it is, or as it was last if those who have it are away.
func (r *Remembered) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if r.config.ConfigMaps == nil {
		return nil, errors.New("there is no source of ConfigMaps (source.RememberedConfig.ConfigMaps)")
	}
	r.read.Do(r.readMemory)
	return r.configMaps.ask(ctx, namespace, name, r.config.ConfigMaps.ConfigMap)
}

// Secret returns a Secret as it is, or as it was last if those who have it are away.
func (r *Remembered) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	if r.config.Secrets == nil {
		return nil, errors.New("there is no source of Secrets (source.RememberedConfig.Secrets)")
	}
	r.read.Do(r.readMemory)
	secret, err := r.secrets.ask(ctx, namespace, name, r.config.Secrets.Secret)
	if err != nil && r.config.Key == nil && isAway(err) {
		err = fmt.Errorf("%w (it is not remembered, as there is no source.RememberedConfig.Key)", err)
	}
	return secret, err
}

// objects are ConfigMaps or Secrets as they were last.
type objects[T metav1.Object] struct {
	changed func()

	mu     sync.Mutex
	byName map[types.NamespacedName]T
}

// load takes over what was remembered.
func (o *objects[T]) load(all []T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byName = map[types.NamespacedName]T{}
	for _, object := range all {
		o.byName[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = object
	}
}

// ask asks for an object, and remembers the answer.
func (o *objects[T]) ask(ctx context.Context, namespace, name string, ask func(ctx context.Context, namespace, name string) (T, error)) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	o.mu.Lock()
	last, known := o.byName[key]
	o.mu.Unlock()
	asking := ctx
	if known {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, askTimeout)
		defer cancel()
	}
	object, err := ask(asking, namespace, name)
	switch {
	case err == nil:
		o.remember(key, object)
	case env.NotFound(err):
		o.forget(key)
	case known && ctx.Err() == nil && isAway(err):
		return last, nil
	}
	return object, err
}

func (o *objects[T]) remember(key types.NamespacedName, object T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, known := o.byName[key]; known && reflect.DeepEqual(last, object) {
		return
	}
	o.byName[key] = object
	o.changed()
}

func (o *objects[T]) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.byName[key]; known {
		delete(o.byName, key)
		o.changed()
	}
}

// keep forgets all objects but those that are named, and returns them in order.
func (o *objects[T]) keep(named map[types.NamespacedName]bool) []T {
	o.mu.Lock()
	defer o.mu.Unlock()
	var kept []T
	for key, object := range o.byName {
		if named[key] {
			kept = append(kept, object)
		} else {
			delete(o.byName, key)
		}
	}
	slices.SortFunc(kept, func(a, b T) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return kept
}

// isAway reports whether an error may be that of a server which cannot be reached or does not
// work. Any other API status is its answer.
func isAway(err error) bool {
	var status interface{ Status() metav1.Status }
	if env.NotFound(err) {
		return false
	}
	if !errors.As(err, &status) {
		return true
	}
	switch s := status.Status(); s.Reason {
	case metav1.StatusReasonInternalError, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests:
		return true
	default:
		return s.Code >= 500
	}
}

// references returns which ConfigMaps and Secrets pods name.
func references(pods []*v1.Pod) (configMaps, secrets map[types.NamespacedName]bool) {
	configMaps, secrets = map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for _, pod := range pods {
		c, s := podspec.References(pod)
		for _, name := range c {
			configMaps[types.NamespacedName{Namespace: pod.Namespace, Name: name}] = true
		}
		for _, name := range s {
			secrets[types.NamespacedName{Namespace: pod.Namespace, Name: name}] = true
		}
	}
	return configMaps, secrets
}
