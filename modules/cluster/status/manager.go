package status

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
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/modules/cluster/internal/queue"
	"github.com/podsync/podsync/modules/cluster/mirrors"
	"github.com/podsync/podsync/podworkers"
	podruntime "github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
)

// Pods knows the pods as the API server has them. A *pods.Source does.
type Pods interface {
	// Get returns a pod, nil if there is none of that name with that UID.
	Get(namespace, name string, uid types.UID) *v1.Pod
	// Synced reports whether it knows all of them. Before that one that is not known may be
	// there.
	Synced() bool
}

// Config is what a Manager is made of.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// Pods are those of the node. Required.
	Pods Pods
	// Mirror returns the mirror of a static pod, whose status is that of the pod; nil if
	// there is none. A *mirrors.Mirrors knows. Default: nobody is told of static pods.
	Mirror func(static *v1.Pod) *v1.Pod
	// Writers is how many pods are written at a time. Default 10.
	Writers int
	// MaxRetry is the longest pause between attempts to write a status. Default 10 s.
	MaxRetry time.Duration
	// Log gets a line for each write that fails and each pod deleted. Default silent.
	Log logr.Logger
}

// A Manager writes the statuses of pods. Its methods may be called concurrently.
type Manager struct {
	podworkers.NopObserver
	config Config
	queue  *queue.Queue[types.UID]

	mu   sync.Mutex
	pods map[types.UID]*entry
	// finished are pods of which nothing is left on the node.
	finished map[types.UID]bool
}

var (
	_ syncpod.StatusSink  = (*Manager)(nil)
	_ podworkers.Observer = (*Manager)(nil)
)

// unknownFor is how long it is known of a pod that nothing of it is left which the API server
// has not told of: it may be about to.
const unknownFor = time.Minute

// entry is one pod.
type entry struct {
	namespace, name string
	// static is the pod if the API server has no more than its mirror.
	static *v1.Pod
	// status is the newest, nil if there was none yet.
	status *v1.PodStatus
	// answer is the pod, or its mirror, as the last write has returned it, nil once the informer
	// is not behind.
	answer *v1.Pod
}

// firstRetry is the shortest pause between attempts to write a status.
const firstRetry = 50 * time.Millisecond

// New returns a Manager that writes nothing before Run.
func New(c Config) (*Manager, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("status: Config.Kube is missing")
	case c.Pods == nil:
		return nil, errors.New("status: Config.Pods is missing")
	case c.Writers < 0:
		return nil, fmt.Errorf("status: Config.Writers is %d, want 0 or more", c.Writers)
	case c.MaxRetry < 0:
		return nil, fmt.Errorf("status: Config.MaxRetry is %v, want 0 or more", c.MaxRetry)
	}
	if c.Mirror == nil {
		c.Mirror = func(*v1.Pod) *v1.Pod { return nil }
	}
	if c.Writers == 0 {
		c.Writers = 10
	}
	if c.MaxRetry == 0 {
		c.MaxRetry = 10 * time.Second
	}
	return &Manager{
		config: c, queue: queue.New[types.UID](firstRetry, c.MaxRetry),
		pods: map[types.UID]*entry{}, finished: map[types.UID]bool{},
	}, nil
}

// SetPodStatus notes the newest status of a pod. It waits for nothing.
func (m *Manager) SetPodStatus(_ context.Context, pod *v1.Pod, status v1.PodStatus) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[pod.UID]
	if e == nil {
		e = &entry{namespace: pod.Namespace, name: pod.Name}
		m.pods[pod.UID] = e
	}
	if podruntime.IsStatic(pod) {
		e.static = pod
	}
	e.status = &status
	if status.Phase == v1.PodPending || status.Phase == v1.PodRunning {
		delete(m.finished, pod.UID) // a static pod that is back
	}
	m.queue.Add(pod.UID)
	return nil
}

// PhaseChanged notes that nothing of a pod is left. A step that led to that may be told after it.
func (m *Manager) PhaseChanged(uid types.UID, _, to podworkers.Phase) {
	if to != podworkers.Finished {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished[uid] = true
	if m.pods[uid] != nil {
		m.queue.Add(uid)
	} else {
		m.queue.AddAfter(uid, unknownFor)
	}
}

// PodChanged tells that the API server has a pod, or with gone set has it no more. That of
// a pods.Source does it, by its Watch. Of mirrors Config.Mirror has been told before.
func (m *Manager) PodChanged(pod *v1.Pod, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if static := mirrors.Shown(pod); static != "" {
		if e := m.pods[static]; e != nil {
			e.seen(pod)
			m.queue.Add(static)
		}
		return
	}
	if gone {
		delete(m.pods, pod.UID)
		delete(m.finished, pod.UID)
		return
	}
	if m.pods[pod.UID] == nil {
		m.pods[pod.UID] = &entry{namespace: pod.Namespace, name: pod.Name}
	}
	m.pods[pod.UID].seen(pod)
	m.queue.Add(pod.UID)
}

// seen drops the answer to a write that the informer has by now, or something newer.
func (e *entry) seen(pod *v1.Pod) {
	if e.answer != nil && e.answer.UID == pod.UID && newest(pod, e.answer) == pod {
		e.answer = nil
	}
}

// Run writes statuses until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	m.queue.Run(ctx, m.config.Writers, m.write, func(uid types.UID, err error) {
		m.config.Log.Error(err, "The status of a pod is not written yet", "podUID", uid)
	})
}

// write brings the API server up to date with one pod.
func (m *Manager) write(ctx context.Context, uid types.UID) error {
	e, finished := m.look(uid)
	if e == nil {
		m.deleted(uid)
		return nil
	}
	pod := m.current(uid, e)
	if pod == nil {
		if m.config.Pods.Synced() && (e.static == nil || finished) {
			m.deleted(uid)
		}
		return nil // it may come, or its mirror
	}
	if e.status != nil {
		answer, err := m.patch(ctx, pod, e.status, false)
		if apierrors.IsConflict(err) {
			pod, err = m.refetch(ctx, pod)
			if err == nil && pod != nil { // others may write faster than this does, and must not hold it up
				answer, err = m.patch(ctx, pod, e.status, true)
			}
		}
		if apierrors.IsNotFound(err) || err == nil && answer == nil {
			return nil // gone, which the informer will tell
		}
		if err != nil {
			return fmt.Errorf("status of pod %s/%s: %w", e.namespace, e.name, err)
		}
		m.wrote(uid, answer)
		pod = answer
	}
	if finished && pod.DeletionTimestamp != nil && e.static == nil {
		return m.delete(ctx, pod)
	}
	return nil
}

// current is a pod, or its mirror, as the API server has it by all that is known.
func (m *Manager) current(uid types.UID, e *entry) *v1.Pod {
	if e.static != nil {
		return newest(m.config.Mirror(e.static), e.answer)
	}
	return newest(m.config.Pods.Get(e.namespace, e.name, uid), e.answer)
}

// look returns a copy of what is known of a pod.
func (m *Manager) look(uid types.UID) (e *entry, finished bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pods[uid]; known != nil {
		e = new(*known)
	}
	return e, m.finished[uid]
}

// wrote notes the answer of the API server.
func (m *Manager) wrote(uid types.UID, answer *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.pods[uid]; e != nil {
		kept := *answer // shares the rest
		kept.ManagedFields = nil
		e.answer = &kept
	}
}

// refetch reads a pod of which more has changed than is known. It returns nil if it is
// gone.
func (m *Manager) refetch(ctx context.Context, old *v1.Pod) (*v1.Pod, error) {
	pod, err := m.config.Kube.CoreV1().Pods(old.Namespace).Get(ctx, old.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != old.UID {
		return nil, nil
	}
	return pod, err
}

// delete ends a pod that was asked to be deleted and of which nothing is left.
func (m *Manager) delete(ctx context.Context, pod *v1.Pod) error {
	err := m.config.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err == nil {
		m.config.Log.Info("Pod is deleted", "pod", pod.Namespace+"/"+pod.Name, "podUID", pod.UID)
		m.deleted(pod.UID)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is gone, or another has its name
	}
	return err
}

// deleted notes that there is nothing to be written of a pod any more.
func (m *Manager) deleted(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
	delete(m.finished, uid)
}

// newest returns which of two versions of a pod is newer; either may be nil.
func newest(a, b *v1.Pod) *v1.Pod {
	if a == nil || b == nil || a.UID != b.UID {
		return a // what the informer has not, or no more, is not written to
	}
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && order < 0 {
		return b
	}
	return a
}
