// Package binder binds pods to nodes in place of a scheduler. It supports node selectors, node affinity, taints,
// cordons, resources and the number of pods, and chooses the node with the fewest pods. It supports neither priorities,
// spreading nor affinity to pods. It also deletes the pods of nodes that no longer exist, in place of the pod garbage
// collector.
package binder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	taints "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/go-logr/logr"

	podruntime "github.com/podsync/podsync/runtime"
)

// pause is the minimum time between two rounds, so that one round handles many changes.
const pause = 10 * time.Millisecond

// A Binder binds pods.
type Binder struct {
	kube  kubernetes.Interface
	pods  cache.SharedIndexInformer
	nodes cache.SharedIndexInformer
	wake  chan struct{}
	// assumed are the pods that were bound, but that the informer still shows as unbound.
	assumed map[types.UID]string
}

// New returns a Binder that does nothing before Run.
func New(kube kubernetes.Interface) (*Binder, error) {
	shared := informers.NewSharedInformerFactory(kube, 0).Core().V1()
	b := &Binder{kube: kube, pods: shared.Pods().Informer(), nodes: shared.Nodes().Informer(), wake: make(chan struct{}, 1), assumed: map[types.UID]string{}}
	for _, i := range []cache.SharedIndexInformer{b.pods, b.nodes} {
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { b.wakeUp() }, UpdateFunc: func(_, _ any) { b.wakeUp() }, DeleteFunc: func(any) { b.wakeUp() },
		})
		if err != nil {
			return nil, fmt.Errorf("binder: %w", err)
		}
	}
	return b, nil
}

// Run binds pods until ctx ends.
func (b *Binder) Run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { b.pods.RunWithContext(ctx) })
	parts.Go(func() { b.nodes.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), b.pods.HasSynced, b.nodes.HasSynced) {
		return
	}
	parts.Go(func() { b.collectOrphans(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		b.schedule(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// nodeInfo has a node's free resources.
type nodeInfo struct {
	node *v1.Node
	free v1.ResourceList
	pods int
}

// schedule binds all pods that fit on a node.
func (b *Binder) schedule(ctx context.Context) {
	nodes, pending := b.read()
	for _, pod := range pending {
		if ctx.Err() != nil {
			return
		}
		if to := choose(nodes, pod); to != nil {
			b.bind(ctx, pod, to)
		} else {
			b.unschedulable(ctx, pod, len(nodes))
		}
	}
}

// read returns the nodes with their free resources, and the unbound pods, the oldest first.
func (b *Binder) read() (nodes []*nodeInfo, pending []*v1.Pod) {
	byName := map[string]*nodeInfo{}
	for _, o := range b.nodes.GetStore().List() {
		node := o.(*v1.Node)
		byName[node.Name] = &nodeInfo{node: node, free: node.Status.Allocatable.DeepCopy()}
		nodes = append(nodes, byName[node.Name])
	}
	for _, o := range b.pods.GetStore().List() {
		pod := o.(*v1.Pod)
		name := cmp.Or(pod.Spec.NodeName, b.assumed[pod.UID])
		if pod.Spec.NodeName != "" {
			delete(b.assumed, pod.UID)
		}
		switch {
		case podruntime.IsTerminal(pod.Status.Phase):
		case name != "" && byName[name] != nil:
			byName[name].addPod(pod)
		case name == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 && cmp.Or(pod.Spec.SchedulerName, v1.DefaultSchedulerName) == v1.DefaultSchedulerName:
			pending = append(pending, pod)
		}
	}
	slices.SortFunc(nodes, func(a, b *nodeInfo) int { return cmp.Compare(a.node.Name, b.node.Name) })
	slices.SortFunc(pending, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return nodes, pending
}

// addPod subtracts a pod's resources from a node.
func (n *nodeInfo) addPod(pod *v1.Pod) {
	n.pods++
	for name, q := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		left := n.free[name]
		left.Sub(q)
		n.free[name] = left
	}
}

// choose returns the node with the fewest pods on which a pod fits, nil if it fits on none.
func choose(nodes []*nodeInfo, pod *v1.Pod) (best *nodeInfo) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, n := range nodes {
		if (best == nil || n.pods < best.pods) && n.fits(pod, requests, affinity) {
			best = n
		}
	}
	return best
}

func (n *nodeInfo) fits(pod *v1.Pod, requests v1.ResourceList, affinity nodeaffinity.RequiredNodeAffinity) bool {
	if most := n.node.Status.Allocatable.Pods().Value(); n.node.Spec.Unschedulable || int64(n.pods) >= most || !ready(n.node) {
		return false
	}
	for name, q := range requests {
		if left, there := n.free[name]; q.Sign() > 0 && (!there || left.Cmp(q) < 0) {
			return false
		}
	}
	if matches, err := affinity.Match(n.node); err != nil || !matches {
		return false
	}
	_, refused := taints.FindMatchingUntoleratedTaint(logr.Discard(), n.node.Spec.Taints, pod.Spec.Tolerations, func(t *v1.Taint) bool {
		return t.Effect != v1.TaintEffectPreferNoSchedule
	}, true)
	return !refused
}

func ready(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue })
}

func (b *Binder) bind(ctx context.Context, pod *v1.Pod, to *nodeInfo) {
	err := b.kube.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: to.node.Name},
	}, metav1.CreateOptions{})
	if err == nil {
		b.assumed[pod.UID] = to.node.Name
		to.addPod(pod)
		return
	}
	b.retry(ctx, err)
}

// unschedulable sets the condition PodScheduled to false, which autoscalers watch for.
func (b *Binder) unschedulable(ctx context.Context, pod *v1.Pod, nodes int) {
	message := fmt.Sprintf("0/%d nodes are available", nodes)
	next := pod.DeepCopy()
	condition := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message, LastTransitionTime: metav1.Now()}
	at := slices.IndexFunc(next.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
	switch {
	case at < 0:
		next.Status.Conditions = append(next.Status.Conditions, condition)
	case next.Status.Conditions[at].Reason == condition.Reason:
		return // the condition is set
	default:
		next.Status.Conditions[at] = condition
	}
	if _, err := b.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		b.retry(ctx, err)
	}
}

// retry starts another round after an error that no event follows.
func (b *Binder) retry(ctx context.Context, err error) {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || ctx.Err() != nil {
		return // the informer is behind
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	b.wakeUp()
}

// wakeUp starts a round, unless one is pending.
func (b *Binder) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default: // a round is pending already
	}
}
