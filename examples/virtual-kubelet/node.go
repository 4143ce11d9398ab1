package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
)

const (
	resync  = time.Minute
	workers = 4 // concurrent pods in virtual-kubelet; podsync has its own workers
)

// Run runs a node with this name until ctx ends. The node runs the pods that the API server binds to it. Run replaces the
// configuration's node name, events, objects, sources and sink.
func Run(ctx context.Context, kube kubernetes.Interface, name string, c agent.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mine := informers.NewSharedInformerFactoryWithOptions(kube, resync, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", name).String()
	}))
	all := informers.NewSharedInformerFactory(kube, resync)
	pods, core := mine.Core().V1().Pods(), all.Core().V1()

	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&clientv1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	events := broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "podsync", Host: name})

	cluster := cluster{kube, core.ConfigMaps().Lister(), core.Secrets().Lister(), core.Services().Lister()}
	c.NodeName, c.Sync.Events = name, events
	cluster.supply(&c.Sync)
	provider, err := NewProvider(pods.Lister(), c)
	if err != nil {
		return err
	}
	pc, err := node.NewPodController(node.PodControllerConfig{
		PodClient: kube.CoreV1(), PodInformer: pods, EventRecorder: events, Provider: provider,
		ConfigMapInformer: core.ConfigMaps(), SecretInformer: core.Secrets(), ServiceInformer: core.Services(),
		SkipDownwardAPIResolution: true, // podsync resolves it, and no Secret gets into a pod's spec
	})
	if err != nil {
		return err
	}
	nc, err := node.NewNodeController(node.NaiveNodeProvider{}, object(name), kube.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(kube.CoordinationV1().Leases(v1.NamespaceNodeLease), node.DefaultLeaseDuration))
	if err != nil {
		return err
	}

	mine.Start(ctx.Done())
	all.Start(ctx.Done())
	defer all.Shutdown()
	defer mine.Shutdown()
	defer cancel()
	mine.WaitForCacheSync(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	return together(ctx,
		provider.Run,
		func(ctx context.Context) error { return pc.Run(ctx, workers) },
		func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return nil
			case <-pc.Ready(): // virtual-kubelet has passed all pods to the provider, or has queued them
			}
			if err := provider.Complete(); err != nil {
				events.Event(object(name), v1.EventTypeWarning, "InvalidPods", err.Error())
			}
			return nc.Run(ctx)
		})
}

// together runs functions until one of them fails or ctx ends, and returns when all have
// returned.
func together(ctx context.Context, run ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(run))
	var wg sync.WaitGroup
	for i, f := range run {
		wg.Go(func() {
			if errs[i] = f(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if errors.Is(err, context.Canceled) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// object returns the Node object for the API server.
func object(name string) *v1.Node {
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "PodsyncReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
	capacity := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse(fmt.Sprint(runtime.NumCPU())),
		v1.ResourceMemory: *resource.NewQuantity(syncpod.DefaultMemoryBytes, resource.BinarySI),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelOSStable: "linux", v1.LabelArchStable: runtime.GOARCH}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "virtual-kubelet.io/provider", Value: "podsync", Effect: v1.TaintEffectNoSchedule}}},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{ready}, Capacity: capacity, Allocatable: capacity},
	}
}
