package clustertest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// A podRecorder records all pods that have existed.
type podRecorder struct {
	informer cache.SharedIndexInformer
	mu       sync.Mutex
	pods     map[string]*v1.Pod // by UID
}

func newPodRecorder(kube kubernetes.Interface) *podRecorder {
	return &podRecorder{informer: informers.NewSharedInformerFactory(kube, 0).Core().V1().Pods().Informer(), pods: map[string]*v1.Pod{}}
}

func (r *podRecorder) run(ctx context.Context) {
	record := func(o any) {
		if pod, ok := o.(*v1.Pod); ok {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.pods[string(pod.UID)] = pod
		}
	}
	if _, err := r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: record, UpdateFunc: func(_, o any) { record(o) }}); err != nil {
		return // fails only if the informer has stopped
	}
	r.informer.RunWithContext(ctx)
}

func (r *podRecorder) all() map[string]*v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pods)
}

// A process is one process in a container, on a node.
type process struct {
	critest.Process
	node string
	pod  *v1.Pod // nil if the recorder did not see it
}

// name returns the identity that two processes must not share: the namespace and name of the pod, and the container.
func (p process) name() string {
	if p.pod == nil {
		return p.PodUID + "/" + p.Container
	}
	return p.pod.Namespace + "/" + p.pod.Name + "/" + p.Container
}

// NoDoubleRuns fails the test if two processes in one container ran at the same time, on one node or on two. It identifies
// pods by name, as a StatefulSet does. It also fails if a regular container with restartPolicy Never ran twice.
func (c *Cluster) NoDoubleRuns(t testing.TB) {
	t.Helper()
	pods, byName := c.pods.all(), map[string][]process{}
	for _, node := range c.fleet.Nodes() {
		for _, ran := range node.Runtime.Processes() {
			p := process{ran, node.Name, pods[ran.PodUID]}
			byName[p.name()] = append(byName[p.name()], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		runs := byName[name]
		slices.SortStableFunc(runs, func(a, b process) int { return a.Started.Compare(b.Started) })
		for i, a := range runs {
			for _, b := range runs[i+1:] {
				switch {
				case a.Overlaps(b.Process):
					t.Errorf("%s ran twice at a time: on %s from %v to %v, and on %s from %v", name, a.node, a.Started, a.Ended, b.node, b.Started)
				case a.PodUID == b.PodUID && runsOnce(a.pod, a.Container):
					t.Errorf("%s may run once and ran twice: on %s at %v with exit code %d, and on %s at %v", name, a.node, a.Started, a.ExitCode, b.node, b.Started)
				}
			}
		}
	}
}

// runsOnce reports whether a container may run only once.
func runsOnce(pod *v1.Pod, container string) bool {
	return pod != nil && pod.Spec.RestartPolicy == v1.RestartPolicyNever && slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
		return c.Name == container && c.RestartPolicy == nil
	})
}
