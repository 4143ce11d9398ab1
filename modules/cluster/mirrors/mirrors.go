package mirrors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/modules/cluster/internal/queue"
	"github.com/podsync/podsync/syncpod/source"
)

// Config configures Mirrors.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// Node returns the newest known Node object. Required.
	Node func() *v1.Node
	// Synced is closed once the API server has listed the node's pods, and PodChanged was called
	// for them. Required.
	Synced <-chan struct{}
	// Running reports whether any part of a static pod that is no longer desired is left on the node. Required.
	Running func(static types.UID) bool
	// Log receives a line for each mirror that is created or deleted, and for errors. Default: no
	// log.
	Log logr.Logger
}

type name = types.NamespacedName

// Mirrors keeps the mirrors of a node's static pods. Its methods may be called concurrently.
type Mirrors struct {
	config Config
	queue  *queue.Queue[name]

	mu sync.Mutex
	// desired are the static pods. complete means that the list is complete.
	desired  map[name]*v1.Pod
	complete bool
	// mirrors are the mirrors in the API server.
	mirrors map[name]*v1.Pod
}

const (
	// firstRetry and lastRetry are the shortest and the longest back-off after a failure.
	firstRetry, lastRetry = 100 * time.Millisecond, 30 * time.Second
	// recheckInterval is the interval of checks whether a pod has stopped.
	recheckInterval = time.Second
)

// New returns Mirrors that do nothing before Run.
func New(c Config) (*Mirrors, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("mirrors: Config.Kube is missing")
	case c.Node == nil:
		return nil, errors.New("mirrors: Config.Node is missing")
	case c.Synced == nil:
		return nil, errors.New("mirrors: Config.Synced is missing")
	case c.Running == nil:
		return nil, errors.New("mirrors: Config.Running is missing")
	}
	return &Mirrors{config: c, queue: queue.New[name](firstRetry, lastRetry), desired: map[name]*v1.Pod{}, mirrors: map[name]*v1.Pod{}}, nil
}

// setDesired sets the desired static pods.
func (m *Mirrors) setDesired(s source.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.mirrors {
		m.queue.Add(n)
	}
	m.desired, m.complete = map[name]*v1.Pod{}, !s.Incomplete
	for _, pod := range s.Pods {
		m.desired[nameOf(pod)] = pod
		m.queue.Add(nameOf(pod))
	}
}

// PodChanged reports a pod that the API server has or, if gone is set, had.
// Register it with Watch of a pods.Source.
func (m *Mirrors) PodChanged(pod *v1.Pod, gone bool) {
	if Shown(pod) == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch there := m.mirrors[nameOf(pod)]; {
	case !gone:
		m.mirrors[nameOf(pod)] = pod
	case there != nil && there.UID == pod.UID:
		delete(m.mirrors, nameOf(pod))
	}
	m.queue.Add(nameOf(pod))
}

func nameOf(pod *v1.Pod) name { return name{Namespace: pod.Namespace, Name: pod.Name} }

// Mirror returns a static pod's mirror, nil if its current version has none. The caller must not modify it.
func (m *Mirrors) Mirror(static *v1.Pod) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mirror := m.mirrors[nameOf(static)]; mirror != nil && Shown(mirror) == hashOf(static) {
		return mirror
	}
	return nil
}

// Run reconciles mirrors until ctx ends.
func (m *Mirrors) Run(ctx context.Context) {
	select {
	case <-m.config.Synced:
	case <-ctx.Done():
		return
	}
	m.queue.Run(ctx, 1, m.sync, func(n name, err error) {
		m.config.Log.Error(err, "A static pod has no mirror yet, or one too many", "pod", n.String())
	})
}

// sync creates or deletes the mirror of the static pod with that name.
func (m *Mirrors) sync(ctx context.Context, n name) error {
	static, mirror, complete := m.get(n)
	switch {
	case mirror == nil && static == nil:
		return nil
	case mirror == nil:
		return m.create(ctx, static)
	case static != nil && mirror.DeletionTimestamp == nil && Shown(mirror) == hashOf(static):
		return nil
	case static == nil && !complete:
		return nil // the pod's file may currently be unreadable
	case (static == nil || mirror.DeletionTimestamp == nil) && m.config.Running(Shown(mirror)):
		m.queue.AddAfter(n, recheckInterval) // the pod version that the mirror shows is still stopping, and needs the mirror for its status
		return nil
	}
	return m.delete(ctx, mirror) // if another mirror is desired, it is created after this one is deleted
}

func (m *Mirrors) get(n name) (static, mirror *v1.Pod, complete bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.desired[n], m.mirrors[n], m.complete
}

func (m *Mirrors) create(ctx context.Context, static *v1.Pod) error {
	made, err := m.config.Kube.CoreV1().Pods(static.Namespace).Create(ctx, mirrorOf(static, m.config.Node()), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("mirror of %s/%s: %w", static.Namespace, static.Name, err)
	}
	m.config.Log.Info("A static pod is shown", "pod", nameOf(static).String(), "mirrorUID", made.UID)
	return nil
}

func (m *Mirrors) delete(ctx context.Context, mirror *v1.Pod) error {
	err := m.config.Kube.CoreV1().Pods(mirror.Namespace).Delete(ctx, mirror.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(mirror.UID)),
	})
	if err == nil {
		m.config.Log.Info("A mirror is deleted", "pod", nameOf(mirror).String(), "mirrorUID", mirror.UID)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the mirror is deleted already; the watch reports it
	}
	return err
}
