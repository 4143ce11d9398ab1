package main

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	listers "k8s.io/client-go/listers/core/v1"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// A Provider runs the pods of virtual-kubelet.
//
// virtual-kubelet identifies pods by their names, and podsync by their UIDs. So the Provider compares the UID of a pod
// with the UID in the API server, to notice that a new pod has replaced another pod with the same name.
type Provider struct {
	*agent.Agent
	source *source.Push
	lister listers.PodLister

	mu     sync.Mutex
	notify func(*v1.Pod)
	// pods are the desired pods, and the deleted ones until they have stopped, with their newest statuses. A pod is replaced
	// and never modified.
	pods map[types.UID]*v1.Pod
}

var (
	_ node.PodLifecycleHandler = (*Provider)(nil)
	_ node.PodNotifier         = (*Provider)(nil)
	_ syncpod.StatusSink       = (*Provider)(nil)
)

// NewProvider returns a provider that does nothing until Run is called. It replaces Sources and Sync.Sink of the
// configuration.
func NewProvider(pods listers.PodLister, c agent.Config) (*Provider, error) {
	p := &Provider{source: source.NewPush(), lister: pods, notify: func(*v1.Pod) {}, pods: map[types.UID]*v1.Pod{}}
	c.Sources, c.Sync.Sink = []source.Source{p.source}, p
	var err error
	p.Agent, err = agent.New(c)
	return p, err
}

// Complete declares that the lister has all pods on this node. Only then the agent stops other pods that an earlier agent
// has left in the runtime.
func (p *Provider) Complete() error {
	pods, err := p.lister.List(labels.Everything())
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		if p.pods[pod.UID] == nil {
			p.pods[pod.UID] = pod
		}
	}
	return p.source.Set(slices.Collect(maps.Values(p.pods))...)
}

// CreatePod adds a pod. It returns an error if the pod is invalid, which virtual-kubelet publishes.
func (p *Provider) CreatePod(_ context.Context, pod *v1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.pods {
		if other.UID != pod.UID && named(other, pod.Namespace, pod.Name) {
			p.drop(other) // the API server has deleted it
		}
	}
	return p.set(pod)
}

// UpdatePod changes a pod.
func (p *Provider) UpdatePod(_ context.Context, pod *v1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set(pod)
}

// DeletePod starts to stop a pod, within the grace period in its object. It is called again when
// the API server has deleted the object; that call reports nothing.
func (p *Provider) DeletePod(_ context.Context, pod *v1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[pod.UID]
	if known == nil {
		return errdefs.NotFoundf("pod %s/%s is not known", pod.Namespace, pod.Name)
	}
	if current := p.current(pod.Namespace, pod.Name); current != nil && current.UID == pod.UID && pod.DeletionTimestamp != nil {
		return p.set(pod)
	}
	p.drop(known)
	return nil
}

func (p *Provider) set(pod *v1.Pod) error {
	if err := p.source.Update(pod); err != nil {
		return errdefs.AsInvalidInput(err)
	}
	pod = pod.DeepCopy()
	if known := p.pods[pod.UID]; known != nil {
		pod.Status = known.Status
	}
	p.pods[pod.UID] = pod
	return nil
}

func (p *Provider) drop(pod *v1.Pod) {
	delete(p.pods, pod.UID)
	p.source.Delete(pod.UID)
}

// current returns the pod with this name in the API server, nil if there is none.
func (p *Provider) current(namespace, name string) *v1.Pod {
	pod, err := p.lister.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	return pod
}

// GetPod returns a pod with its status. If the API server has a pod with this name, GetPod never returns another pod.
func (p *Provider) GetPod(_ context.Context, namespace, name string) (*v1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	current := p.current(namespace, name)
	for _, pod := range p.pods {
		if named(pod, namespace, name) && (current == nil || current.UID == pod.UID) {
			return pod, nil
		}
	}
	return nil, errdefs.NotFoundf("pod %s/%s is not known", namespace, name)
}

// GetPodStatus returns a pod's newest status.
func (p *Provider) GetPodStatus(ctx context.Context, namespace, name string) (*v1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods returns all pods.
func (p *Provider) GetPods(context.Context) ([]*v1.Pod, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.pods)), nil
}

// NotifyPods registers the function that receives statuses.
func (p *Provider) NotifyPods(_ context.Context, notify func(*v1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notify = notify
}

// SetPodStatus passes a pod's status to virtual-kubelet.
func (p *Provider) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	if known, notify := p.note(pod.UID, status); known != nil {
		notify(known)
	}
	return nil
}

func (p *Provider) note(uid types.UID, status v1.PodStatus) (*v1.Pod, func(*v1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[uid]
	if known != nil {
		known = known.DeepCopy()
		known.Status = status
		p.pods[uid] = known
	}
	return known, p.notify
}

func named(pod *v1.Pod, namespace, name string) bool {
	return pod.Namespace == namespace && pod.Name == name
}
