package binder

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// collectInterval is the time between two searches for pods of missing nodes, and quarantine is how long a node must be
	// missing: they are those of Kubernetes' pod garbage collector.
	collectInterval = 20 * time.Second
	quarantine      = 40 * time.Second
)

// collectOrphans deletes the pods of nodes that no longer exist until ctx ends: their containers have ended with the machine.
func (b *Binder) collectOrphans(ctx context.Context) {
	missing := map[string]time.Time{} // by name of the node, when it was found missing
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(collectInterval):
		}
		orphans := b.orphans()
		for name := range missing {
			if orphans[name] == nil {
				delete(missing, name)
			}
		}
		for name, pods := range orphans {
			if missing[name].IsZero() {
				missing[name] = time.Now()
			} else if time.Since(missing[name]) >= quarantine && b.isMissing(ctx, name) {
				b.deleteAll(ctx, pods)
			}
		}
	}
}

// orphans returns the pods of nodes that do not exist, by the node's name.
func (b *Binder) orphans() map[string][]*v1.Pod {
	all := map[string][]*v1.Pod{}
	for _, o := range b.pods.GetStore().List() {
		pod := o.(*v1.Pod)
		if pod.Spec.NodeName == "" {
			continue
		}
		if _, exists, err := b.nodes.GetStore().GetByKey(pod.Spec.NodeName); err == nil && !exists {
			all[pod.Spec.NodeName] = append(all[pod.Spec.NodeName], pod)
		}
	}
	return all
}

// isMissing reads the Node from the API server, because the informer's copy may be older.
func (b *Binder) isMissing(ctx context.Context, node string) bool {
	_, err := b.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// deleteAll deletes pods at once. The next round retries what fails.
func (b *Binder) deleteAll(ctx context.Context, pods []*v1.Pod) {
	for _, pod := range pods {
		o := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		_ = b.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, o)
	}
}
