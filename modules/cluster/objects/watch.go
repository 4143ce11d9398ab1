package objects

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/cached"
	"github.com/podsync/podsync/syncpod/container/env"
)

type key = types.NamespacedName

// client reads the objects of one kind in one namespace.
type client[T, L runtime.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// watches are the watches of the objects of one kind.
type watches[T runtime.Object] struct {
	read  func(ctx context.Context, k key) (T, error)
	start func(ctx context.Context, k key) *watched

	mu          sync.Mutex
	objects     map[key]*watched
	byNamespace map[string]*usage // by namespace
	total       usage
	stopped     bool
	// running are the watches that have not ended.
	running sync.WaitGroup
}

// The watches are limited, because a pod of 1.5 MB may name 80,000 objects, and an object may have 1 MiB. maxWatches and
// maxBytes limit the watches of one kind and the data in their caches; maxNamespaceWatches and maxNamespaceBytes limit
// one namespace's watches and data. An object beyond a limit is read each time that a pod needs it, so that the agent
// notices a change only when it syncs the pod.
const (
	maxWatches, maxNamespaceWatches = 2048, 512
	maxBytes, maxNamespaceBytes     = 64 << 20, 16 << 20
)

// usage counts watches and their objects' bytes, in one namespace or in all.
type usage struct{ watches, bytes int }

// watched is one object's watch.
type watched struct {
	// bytes is the size of the object's data, guarded by the watch lock. large means that the data exceeds the
	// limit: then there is no watch.
	bytes int
	large bool

	store  cache.Store
	synced <-chan struct{}
	// absent is set once the API server has answered that the object does not exist. From then on the watch shows whether
	// it does, also while the server is unavailable.
	absent atomic.Bool
	// cancel ends the watch, and closes cancelled.
	cancel    context.CancelFunc
	cancelled <-chan struct{}
}

// firstWait is how long a read waits for a watch that has just started before it reads the object
// directly, and how long such a read takes if the watch shows that there is no object.
const firstWait = time.Second

// newWatches returns watches that use the clients returned by of.
func newWatches[T, L runtime.Object](kube any, changed func(), kind T, of func(namespace string) client[T, L]) *watches[T] {
	w := &watches[T]{objects: map[key]*watched{}, byNamespace: map[string]*usage{}}
	w.read = func(ctx context.Context, k key) (T, error) {
		return of(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	}
	w.start = func(ctx context.Context, k key) *watched {
		o := &watched{cancelled: ctx.Done()}
		only := func(o metav1.ListOptions) metav1.ListOptions {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", k.Name).String()
			return o
		}
		store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					return of(k.Namespace).List(ctx, only(o))
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					return of(k.Namespace).Watch(ctx, only(o))
				},
			}, kube),
			ObjectType: kind, Transform: func(object any) (any, error) {
				object, err := cached.WithoutManagedFields(object)
				w.charge(k, o, bytesOf(object))
				return object, err
			},
			Handler: cache.ResourceEventHandlerDetailedFuncs{
				AddFunc: func(_ any, first bool) {
					if !first {
						changed()
					}
				},
				UpdateFunc: func(_, _ any) { changed() },
				DeleteFunc: func(any) { changed() },
			},
		})
		o.store, o.synced = store, informer.HasSyncedChecker().Done()
		w.running.Go(func() { informer.RunWithContext(ctx) })
		return o
	}
	return w
}

// get returns an object, and starts its watch. If a synced watch shows no object, it asks the server once, because the watch
// may have begun with an old list.
func (w *watches[T]) get(ctx context.Context, k key) (T, error) {
	o := w.watchOf(k)
	if o == nil {
		return w.read(ctx, k)
	}
	wait, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	select {
	case <-o.cancelled:
	case <-o.synced:
		if object, found, _ := o.store.GetByKey(k.Namespace + "/" + k.Name); found {
			return object.(T), nil
		}
		return w.confirm(wait, k, o)
	case <-wait.Done():
	}
	return w.read(ctx, k)
}

// confirm reads an object that its watch does not have. A server that is unavailable leaves it at that.
func (w *watches[T]) confirm(ctx context.Context, k key, o *watched) (object T, err error) {
	if !o.absent.Load() {
		object, err = w.read(ctx, k)
		if !env.Unavailable(err) {
			o.absent.Store(env.NotFound(err))
			return object, err
		}
	}
	return object, fmt.Errorf("%s: %w", k, env.ErrNotFound)
}

// watchOf returns an object's watch. It starts one if there is none. It returns nil if a limit is reached, and after
// stop.
func (w *watches[T]) watchOf(k key) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[k]; o != nil && !o.large {
		return o
	}
	in := w.byNamespace[k.Namespace]
	if in == nil {
		in = &usage{}
	}
	if w.stopped || w.objects[k] != nil || in.watches >= maxNamespaceWatches || w.total.watches >= maxWatches {
		return nil
	}
	w.byNamespace[k.Namespace] = in
	in.watches++
	w.total.watches++
	ctx, cancel := context.WithCancel(context.Background())
	o := w.start(ctx, k)
	o.cancel = cancel
	w.objects[k] = o
	return o
}

// charge counts the data of a watched object against the limits. If the limit is exceeded, it ends the watch and marks the object as large.
func (w *watches[T]) charge(k key, o *watched, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.objects[k] != o { // its watch has ended
		return
	}
	in, more := w.byNamespace[k.Namespace], bytes-o.bytes
	if in.bytes+more > maxNamespaceBytes || w.total.bytes+more > maxBytes {
		o.cancel()
		w.release(k, o)
		w.objects[k] = &watched{large: true, cancel: o.cancel}
		return
	}
	o.bytes = bytes
	in.bytes += more
	w.total.bytes += more
}

// release subtracts a watch that ends. The caller holds the lock.
func (w *watches[T]) release(k key, o *watched) {
	in := w.byNamespace[k.Namespace]
	in.watches, in.bytes = in.watches-1, in.bytes-o.bytes
	w.total.watches, w.total.bytes = w.total.watches-1, w.total.bytes-o.bytes
	if in.watches == 0 {
		delete(w.byNamespace, k.Namespace)
	}
}

// bytesOf returns the bytes of an object's data.
func bytesOf(object any) (n int) {
	switch o := object.(type) {
	case *v1.ConfigMap:
		for key, value := range o.Data {
			n += len(key) + len(value)
		}
		for key, value := range o.BinaryData {
			n += len(key) + len(value)
		}
	case *v1.Secret:
		for key, value := range o.Data {
			n += len(key) + len(value)
		}
	}
	return n
}

// keepOnly ends the watches of all objects that are not wanted.
func (w *watches[T]) keepOnly(wanted map[key]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, o := range w.objects {
		if !wanted[k] {
			o.cancel()
			if !o.large {
				w.release(k, o)
			}
			delete(w.objects, k)
		}
	}
}

// stop ends all watches and prevents new ones. It returns when they have ended.
func (w *watches[T]) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.keepOnly(nil)
	w.running.Wait()
}
