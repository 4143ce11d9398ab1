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
	"github.com/podsync/podsync/syncpod/source"
)

// A Watch is one watch of the pods of all nodes, for a process that runs many nodes: see Config.Watch.
type Watch struct{ pods *watched.Watch[*v1.Pod] }

// NewWatch returns a Watch of all pods that are bound to a node. It makes no request before Run.
func NewWatch(kube kubernetes.Interface) *Watch {
	return newWatch(kube, fields.OneTermNotEqualSelector("spec.nodeName", ""))
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.pods.Run(ctx) }

// ListenAll calls changed for each pod of any node that is added, changed or, with gone set, deleted. changed must not
// block, and must not modify the pod. Call it before Run.
func (w *Watch) ListenAll(changed func(pod *v1.Pod, gone bool)) { w.pods.ListenAll(changed) }

// Announce calls the functions of ListenAll for each present pod of a node, even for those that they know.
func (w *Watch) Announce(nodeName string) { w.pods.Announce(nodeName) }

// Hold keeps the changes to a node's pods from its Source until release is called, for tests of nodes that lose their
// connection. release passes on the pods that differ. A node must not be held twice at a time.
func (w *Watch) Hold(nodeName string) (release func()) { return w.pods.Hold(nodeName) }

// NodeOf returns a pod's node name, "" if there is no such pod.
func (w *Watch) NodeOf(namespace, name string) string {
	pod, ok := w.pods.Get(namespace, name)
	if !ok {
		return ""
	}
	return pod.Spec.NodeName
}

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
	return &Watch{watched.New(cache.ToListWatcherWithWatchListSemantics(lister, kube), &v1.Pod{}, func(pod *v1.Pod) string { return pod.Spec.NodeName }, setSource)}
}

// setSource sets a pod's source, so that the Push of a Source shares the pod. A mirror pod keeps its static pod's source.
func setSource(pod *v1.Pod) {
	if !isMirror(pod) {
		source.SetAPISource(pod)
	}
}
