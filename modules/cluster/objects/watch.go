package objects

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/cached"
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

	mu      sync.Mutex
	objects map[key]*watched
	stopped bool
	// running are the watches that have not ended.
	running sync.WaitGroup
}

// watched is one object.
type watched struct {
	store  cache.Store
	synced <-chan struct{}
	cancel context.CancelFunc
}

// firstWait is how long a read waits for a watch that has just started before it reads the object
// directly.
const firstWait = time.Second

// newWatches returns watches that use the clients returned by of.
func newWatches[T, L runtime.Object](kube any, changed func(), kind T, of func(namespace string) client[T, L]) *watches[T] {
	w := &watches[T]{objects: map[key]*watched{}}
	w.read = func(ctx context.Context, k key) (T, error) {
		return of(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	}
	w.start = func(ctx context.Context, k key) *watched {
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
			ObjectType: kind, Transform: cached.WithoutManagedFields,
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
		w.running.Go(func() { informer.RunWithContext(ctx) })
		return &watched{store: store, synced: informer.HasSyncedChecker().Done()}
	}
	return w
}

// get returns an object. It is watched from then on.
func (w *watches[T]) get(ctx context.Context, k key) (T, error) {
	o := w.of(k)
	if o == nil {
		return w.read(ctx, k)
	}
	wait, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	select {
	case <-o.synced:
		if object, found, _ := o.store.GetByKey(k.Namespace + "/" + k.Name); found {
			return object.(T), nil
		}
	case <-wait.Done():
	}
	return w.read(ctx, k) // returns the error, or an object that the watch has not seen yet
}

// of returns the watch of an object. It starts one if there is none, and returns nil after stop.
func (w *watches[T]) of(k key) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[k]; o != nil || w.stopped {
		return o
	}
	ctx, cancel := context.WithCancel(context.Background())
	o := w.start(ctx, k)
	o.cancel = cancel
	w.objects[k] = o
	return o
}

// keep ends the watches of all other objects.
func (w *watches[T]) keep(wanted map[key]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, o := range w.objects {
		if !wanted[k] {
			o.cancel()
			delete(w.objects, k)
		}
	}
}

// stop ends all watches and prevents new ones. It returns when they have ended.
func (w *watches[T]) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.keep(nil)
	w.running.Wait()
}
