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
	podruntime "github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/podref"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// Pods returns the pods in the API server. A *pods.Source implements it.
type Pods interface {
	// Get returns a pod, nil if there is none with that name and UID.
	Get(namespace, name string, uid types.UID) *v1.Pod
	// Synced reports whether all pods are known. Before that, an unknown pod may exist.
	Synced() bool
}

// Config configures a Manager.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// Pods are the node's pods. Required.
	Pods Pods
	// Mirror returns the mirror pod of a static pod, to which the pod's status is written; nil if
	// there is none. A *mirrors.Mirrors provides it. Default: the statuses of static pods are not
	// written.
	Mirror func(static *v1.Pod) *v1.Pod
	// Writers limits the concurrent writes. Default 10.
	Writers int
	// MaxRetry is the longest pause between attempts to write a status. Default 10 s.
	MaxRetry time.Duration
	// Log receives a line for each failed write and each deleted pod. Default: no log.
	Log logr.Logger
}

// A Manager writes pod statuses. Its methods may be called concurrently.
type Manager struct {
	config Config
	queue  *queue.Queue[types.UID]

	mu   sync.Mutex
	pods map[types.UID]*entry
	// finished are the pods that have left nothing on the node.
	finished map[types.UID]bool
	// synced is closed and replaced when the API server has one more pod's newest status.
	synced chan struct{}
}

var _ syncpod.StatusSink = (*Manager)(nil)

// unlistedTTL is how long the Manager remembers that a pod has finished if the API server has not listed the pod: it may
// still list it.
const unlistedTTL = time.Minute

// entry is one pod's state.
type entry struct {
	namespace, name string
	// static is the static pod, if the API server has only its mirror.
	static *v1.Pod
	// status is the newest status, nil if there is none yet. It is due until it is written, or there is no pod to write it to.
	status *v1.PodStatus
	due    bool
	// answer is the pod, or its mirror, in the response to the last write. It is nil once the informer has caught up.
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
		pods: map[types.UID]*entry{}, finished: map[types.UID]bool{}, synced: make(chan struct{}),
	}, nil
}

// SetPodStatus stores a pod's newest status, and returns immediately.
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
	e.status, e.due = &status, true
	if status.Phase == v1.PodPending || status.Phase == v1.PodRunning {
		delete(m.finished, pod.UID) // a static pod that is back
	}
	m.queue.Add(pod.UID)
	return nil
}

// maxRefusal is the maximum length of the message for a rejected pod, in bytes: the error names each invalid field.
const maxRefusal = 4096

// Refused reports a pod that cannot run because it is invalid, and lets it be deleted.
func (m *Manager) Refused(pod *v1.Pod, err error) {
	text := foreign.CutText(err.Error(), maxRefusal)
	_ = m.SetPodStatus(context.Background(), pod, apistatus.Rejected(v1.PodStatus{}, "InvalidPod", text)) // never fails
	m.Finished(pod.UID)
}

// Finished records that nothing of a pod is left. The pod's last status may be reported later.
func (m *Manager) Finished(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished[uid] = true
	if m.pods[uid] != nil {
		m.queue.Add(uid)
	} else {
		m.queue.AddAfter(uid, unlistedTTL)
	}
}

// PodChanged reports a pod that the API server has or, if gone is set, had.
// Register it with Watch of a pods.Source, after the mirrors' PodChanged.
func (m *Manager) PodChanged(pod *v1.Pod, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if static := mirrors.Shown(pod); static != "" {
		if e := m.pods[static]; e != nil {
			e.observe(pod)
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
	m.pods[pod.UID].observe(pod)
	m.queue.Add(pod.UID)
}

// observe drops the response to a write once the informer has that version or a newer one.
func (e *entry) observe(pod *v1.Pod) {
	if e.answer != nil && e.answer.UID == pod.UID && newest(pod, e.answer) == pod {
		e.answer = nil
	}
}

// Run writes statuses until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	m.queue.Run(ctx, m.config.Writers, m.sync, func(uid types.UID, err error) {
		m.config.Log.Error(err, "The status of a pod is not written yet", "podUID", uid)
	})
}

// Flush waits until the API server has the newest status of each pod that exists there. If ctx ends first, the error says how
// many statuses are not written. Run must be running.
func (m *Manager) Flush(ctx context.Context) error {
	for {
		due, synced := m.due()
		if due == 0 {
			return nil
		}
		select {
		case <-synced:
		case <-ctx.Done():
			return fmt.Errorf("status: %d statuses of pods are not written: %w", due, context.Cause(ctx))
		}
	}
}

// due returns the number of statuses that are due, and a channel that is closed when that may have changed.
func (m *Manager) due() (n int, synced <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.pods {
		if e.due {
			n++
		}
	}
	return n, m.synced
}

// sync writes one pod's newest status to the API server.
func (m *Manager) sync(ctx context.Context, uid types.UID) error {
	e, finished := m.snapshot(uid)
	if err := m.write(ctx, uid, e, finished); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pods[uid]; known != nil && e != nil && known.status == e.status {
		known.due = false
	}
	close(m.synced)
	m.synced = make(chan struct{})
	return nil
}

// write writes one pod's status as it was when e was copied, and deletes a pod that is finished.
func (m *Manager) write(ctx context.Context, uid types.UID, e *entry, finished bool) error {
	if e == nil {
		m.deleted(uid)
		return nil
	}
	pod := m.current(uid, e)
	if pod == nil {
		if m.config.Pods.Synced() && (e.static == nil || finished) {
			m.deleted(uid)
		}
		return nil // the pod or its mirror may still appear
	}
	if e.status != nil {
		answer, err := m.patch(ctx, pod, e.status, false)
		if apierrors.IsConflict(err) {
			pod, err = m.refetch(ctx, pod)
			if err == nil && pod != nil { // retry at once: with a back-off, a faster writer could delay this write without end
				answer, err = m.patch(ctx, pod, e.status, true)
			}
		}
		if apierrors.IsNotFound(err) || err == nil && answer == nil {
			return nil // the pod is deleted; the informer will report it
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

// current returns the newest known version of a pod, or of its mirror.
func (m *Manager) current(uid types.UID, e *entry) *v1.Pod { return newest(m.known(uid, e), e.answer) }

// known returns the version of a pod, or of its mirror, that the informer has; nil if it has none.
func (m *Manager) known(uid types.UID, e *entry) *v1.Pod {
	if e.static != nil {
		return m.config.Mirror(e.static)
	}
	return m.config.Pods.Get(e.namespace, e.name, uid)
}

// snapshot returns a copy of a pod's state.
func (m *Manager) snapshot(uid types.UID) (e *entry, finished bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.pods[uid]; known != nil {
		e = new(*known)
	}
	return e, m.finished[uid]
}

// wrote stores the response from the API server, unless the informer has this version already: it often gets the event
// before the response arrives, and no later event would drop the response.
func (m *Manager) wrote(uid types.UID, answer *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.pods[uid]; e != nil {
		kept := *answer // shares the rest
		kept.ManagedFields = nil
		e.answer = &kept
		if known := m.known(uid, e); known != nil {
			e.observe(known)
		}
	}
}

// refetch reads a pod after a conflict. It returns nil if the pod no longer exists.
func (m *Manager) refetch(ctx context.Context, old *v1.Pod) (*v1.Pod, error) {
	pod, err := m.config.Kube.CoreV1().Pods(old.Namespace).Get(ctx, old.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pod.UID != old.UID {
		return nil, nil
	}
	return pod, err
}

// delete deletes the object of a pod that is being deleted and has nothing left on the node.
func (m *Manager) delete(ctx context.Context, pod *v1.Pod) error {
	err := m.config.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err == nil {
		podref.Log(m.config.Log, pod).Info("Pod is deleted")
		m.deleted(pod.UID)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod is deleted, or another pod has its name
	}
	return err
}

// deleted drops the state of a pod that needs no further write.
func (m *Manager) deleted(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
	delete(m.finished, uid)
}

// newest returns the newer of two versions of a pod; either may be nil.
func newest(a, b *v1.Pod) *v1.Pod {
	if a == nil || b == nil || a.UID != b.UID {
		return a // a pod that the informer lacks is not written
	}
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && order < 0 {
		return b
	}
	return a
}
