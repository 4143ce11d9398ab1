package node

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/watched"
)

// A Watch is one watch of all Nodes, for a process that runs many of them: see Config.Watch.
type Watch struct{ nodes *watched.Watch[*v1.Node] }

// NewWatch returns a Watch of all Nodes. It makes no request before Run.
func NewWatch(kube kubernetes.Interface) *Watch { return newWatch(kube, fields.Everything()) }

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.nodes.Run(ctx) }

// Hold keeps the changes to a Node's object from it until release is called, for tests of nodes that lose their connection.
// A Node must not be held twice at a time.
func (w *Watch) Hold(name string) (release func()) { return w.nodes.Hold(name) }

func newWatch(kube kubernetes.Interface, selector fields.Selector) *Watch {
	nodes := kube.CoreV1().Nodes()
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector.String()
			return nodes.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector.String()
			return nodes.Watch(ctx, o)
		},
	}
	return &Watch{watched.New(cache.ToListWatcherWithWatchListSemantics(lister, kube), &v1.Node{}, func(node *v1.Node) string { return node.Name }, nil)}
}
