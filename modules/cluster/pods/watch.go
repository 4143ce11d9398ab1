package pods

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

// A Watch is one watch of the pods of all nodes, for a process that runs many nodes: see Config.Watch.
type Watch struct{ pods *watched.Watch[*v1.Pod] }

// NewWatch returns a Watch of all pods that are bound to a node. It makes no request before Run.
func NewWatch(kube kubernetes.Interface) *Watch {
	return newWatch(kube, fields.OneTermNotEqualSelector("spec.nodeName", ""))
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.pods.Run(ctx) }

func newWatch(kube kubernetes.Interface, selector fields.Selector) *Watch {
	pods := kube.CoreV1().Pods(metav1.NamespaceAll)
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector.String()
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector.String()
			return pods.Watch(ctx, o)
		},
	}
	return &Watch{watched.New(cache.ToListWatcherWithWatchListSemantics(lister, kube), &v1.Pod{}, func(pod *v1.Pod) string { return pod.Spec.NodeName })}
}
