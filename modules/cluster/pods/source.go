package pods

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/syncpod/source"
)

// Config configures a Source.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// NodeName is the node's name. Required.
	NodeName string
	// Watch is the watch of pods that this Source shares with the Sources of other nodes. The caller runs it. Default: a
	// watch of this node's pods only.
	Watch *Watch
	// After is closed when the Source may start to watch: after the node's registration,
	// because admission depends on its labels. Default: immediately.
	After <-chan struct{}
	// Refused is called for each invalid pod without an earlier valid version, on each event from the API server for it:
	// the Source does not deliver such a pod. It must not call the Source. Default: none.
	Refused func(pod *v1.Pod, err error)
	// Log receives a line for each invalid pod. Default: no log.
	Log logr.Logger
}

// A Source delivers a node's pods. Its methods may be called concurrently.
type Source struct {
	config   Config
	push     *source.Push
	watch    *Watch
	watchers []func(pod *v1.Pod, gone bool)
	// configs has a value while ConfigMaps or Secrets of pods have changed.
	configs chan struct{}
	// mu is held while pods are pushed, so that a pod that is deleted during a list is not pushed
	// after its deletion.
	mu sync.Mutex
	// accepted are the newest valid versions. If a later version is invalid and deleted, the valid one is marked as
	// deleted.
	accepted map[types.UID]*v1.Pod
}

var _ source.Source = (*Source)(nil)

// New returns a Source that makes no request before Run.
func New(c Config) (*Source, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("pods: Config.Kube is missing")
	case c.NodeName == "":
		return nil, errors.New("pods: Config.NodeName is missing")
	}
	if c.Refused == nil {
		c.Refused = func(*v1.Pod, error) {}
	}
	s := &Source{config: c, push: source.NewAdmittedPush(), watch: c.Watch, configs: make(chan struct{}, 1), accepted: map[types.UID]*v1.Pod{}}
	if s.watch == nil {
		s.watch = newWatch(c.Kube, fields.OneTermEqualSelector("spec.nodeName", c.NodeName))
	}
	return s, nil
}

// Name returns the name of the source of API server pods.
func (s *Source) Name() string { return s.push.Name() }

// Get returns the newest known version of a pod, nil if there is none with that name and UID. The
// caller must not modify it.
func (s *Source) Get(namespace, name string, uid types.UID) *v1.Pod {
	if pod, ok := s.watch.pods.Get(namespace, name); ok && pod.UID == uid && pod.Spec.NodeName == s.config.NodeName {
		return pod
	}
	return nil
}

// Pods returns the newest known versions of all pods, finished ones included. The caller must not
// modify them.
func (s *Source) Pods() []*v1.Pod { return s.watch.pods.List(s.config.NodeName) }

// Synced reports whether the API server has listed the pods.
func (s *Source) Synced() bool {
	select {
	case <-s.Listed():
		return true
	default:
		return false
	}
}

// Listed returns a channel that is closed once the API server has listed the pods.
func (s *Source) Listed() <-chan struct{} { return s.watch.pods.Listed() }

// Watch registers f, which is called for each pod that is added, changed or, with gone set,
// deleted. Call it before Run. Calls of f never overlap, and must not block.
func (s *Source) Watch(f func(pod *v1.Pod, gone bool)) { s.watchers = append(s.watchers, f) }

// changed passes an event to the watchers and to the Push.
func (s *Source) changed(pod *v1.Pod, gone bool) {
	for _, f := range s.watchers {
		f(pod, gone)
	}
	if gone {
		s.remove(pod)
	} else {
		s.update(pod)
	}
}

// ConfigsChanged starts an update to the ConfigMaps and Secrets that running pods have mounted. It returns immediately.
func (s *Source) ConfigsChanged() {
	select {
	case s.configs <- struct{}{}:
	default: // an update is pending already
	}
}

// Run delivers the pods until ctx ends. While the API server is unavailable, it delivers nothing.
func (s *Source) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	if s.config.After != nil {
		select {
		case <-s.config.After:
		case <-ctx.Done():
			return nil
		}
	}
	snapshots := make(chan source.Snapshot)
	var parts sync.WaitGroup
	stop := s.watch.pods.Listen(s.config.NodeName, s.changed)
	defer stop()
	if s.config.Watch == nil {
		parts.Go(func() { s.watch.Run(ctx) })
	}
	parts.Go(func() { s.pushAll(ctx) })
	parts.Go(func() {
		_ = s.push.Run(ctx, func(snapshot source.Snapshot) { // it returns only when ctx ends
			select {
			case snapshots <- snapshot:
			case <-ctx.Done():
			}
		})
	})
	s.deliverSnapshots(ctx, snapshots, deliver)
	parts.Wait()
	return nil
}

// pushAll pushes the complete set of pods once the API server has listed them.
func (s *Source) pushAll(ctx context.Context) {
	select {
	case <-s.Listed():
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var wanted []*v1.Pod
	for _, pod := range s.Pods() {
		if valid := s.accepted[pod.UID]; valid != nil {
			wanted = append(wanted, valid)
		} else if !isMirror(pod) {
			wanted = append(wanted, pod)
		}
	}
	if err := s.push.Set(wanted...); err != nil {
		s.config.Log.Error(err, "Pods are not valid")
	}
}

// deliverSnapshots delivers snapshots, and the last one again when ConfigMaps or Secrets have changed.
func (s *Source) deliverSnapshots(ctx context.Context, snapshots <-chan source.Snapshot, deliver func(source.Snapshot)) {
	last := source.Snapshot{Incomplete: true}
	for {
		select {
		case <-ctx.Done():
			return
		case last = <-snapshots:
			deliver(last)
		case <-s.configs:
			again := last
			again.ConfigsChanged = true
			deliver(again)
		}
	}
}

func (s *Source) update(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isMirror(pod) {
		return
	}
	err := s.push.Update(pod)
	if err == nil {
		s.accepted[pod.UID] = pod
		return
	}
	s.config.Log.Error(err, "A pod is not valid")
	before := s.accepted[pod.UID]
	switch {
	case before == nil:
		s.config.Refused(pod, err)
	case pod.DeletionTimestamp != nil:
		s.terminate(before, pod)
	}
}

// terminate stops the running version of a pod with the grace period of a newer version that is invalid.
func (s *Source) terminate(running, newer *v1.Pod) {
	stopping := *running // shares all other fields
	stopping.DeletionTimestamp, stopping.DeletionGracePeriodSeconds = newer.DeletionTimestamp, newer.DeletionGracePeriodSeconds
	if err := s.push.Update(&stopping); err != nil {
		s.config.Log.Error(err, "A pod cannot be stopped with its new grace period")
		return
	}
	s.accepted[stopping.UID] = &stopping
}

func (s *Source) remove(pod *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push.Delete(pod.UID)
	delete(s.accepted, pod.UID)
}

func isMirror(pod *v1.Pod) bool {
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirror
}
