package loop

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/order"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
)

// A Pod is the state of a pod that sources want, or wanted.
type Pod struct {
	// Pod is the current, or the last, version of the pod in its source. It must not be modified.
	Pod *v1.Pod
	// Removed means that the source no longer wants the pod.
	Removed bool
	// Phase is the pod's stage of its life on the node.
	Phase podworkers.Phase
	// Status is the status that was reported last, the zero status if there was none. It must not be
	// modified.
	Status v1.PodStatus
}

// Pods returns all pods of the Loop: those that sources want, whether or not they have been
// reconciled, and those that are still stopping. They are sorted by namespace, name and UID.
func (l *Loop) Pods() []Pod {
	desired := l.sources.desired()
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	pods := make([]Pod, 0, max(len(desired.pods), len(l.table.pods)))
	for _, want := range desired.pods {
		if l.table.pods[want.pod.UID] == nil {
			pods = append(pods, Pod{Pod: want.pod})
		}
	}
	for uid, wp := range l.table.pods {
		state := l.states.get(uid)
		p := Pod{Pod: wp.pod, Removed: wp.desired == nil, Phase: l.workers.State(uid).Phase}
		if state.status != nil {
			p.Status = *state.status
		}
		pods = append(pods, p)
	}
	return order.Sorted(pods, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Pod.UID, b.Pod.UID))
	})
}

// Explain describes, for people, a pod's stage on the node, what happens next to it and to each of its
// containers, why, and what that waits for. The texts may change.
func (l *Loop) Explain(uid types.UID) string {
	state := l.workers.State(uid)
	next := l.syncer.Explain(uid)
	if next == "" && state.Known && state.Phase == podworkers.Syncing {
		next = "The agent has not decided on it yet: it waits for its name, for the runtime, or for a pod of the same UID that has to end first.\n"
	}
	if unknown := l.sources.unknownBeside(uid); len(unknown) > 0 && !state.Known {
		next = fmt.Sprintf("It does not start, because its source knows none of the pods that an earlier agent has left: %s.\n", strings.Join(unknown, ", "))
	}
	return fmt.Sprintf("%sState: %v.\n%s", silence(l.watcher.Health()), state, next)
}

// silence describes since when the runtime has not answered, "" if it answers.
func silence(h pleg.Health) string {
	if h.Err == nil || h.Since.IsZero() {
		return ""
	}
	return fmt.Sprintf("The runtime has not answered since %s, for %v: %v. This is the last known state:\n",
		h.Since.UTC().Format(time.RFC3339), h.At.Sub(h.Since).Round(time.Second), foreign.Error(h.Err))
}

// Cache returns the cache with the last observed pod statuses in the runtime. It is
// Config.Watch's cache. The caller must not modify it.
func (l *Loop) Cache() *runtime.Cache { return l.config.Cache }

// host is a Loop as its parts see it.
type host struct{ loop *Loop }

var _ Host = host{}

func (h host) Pods() []Pod { return h.loop.Pods() }

func (h host) KillPod(ctx context.Context, uid types.UID, stop podworkers.StopRequest) error {
	return h.loop.KillPod(ctx, uid, stop)
}

func (h host) State(uid types.UID) podworkers.PodState { return h.loop.workers.State(uid) }

func (h host) PodChanged(uid types.UID) {
	h.loop.syncer.ProbesChanged(uid)
	h.loop.table.requestSync(uid)
}

func (h host) Available() error {
	_, err := h.loop.watcher.Available()
	return err
}

func (h host) Events() syncpod.EventRecorder {
	if h.loop.table.events == nil {
		return syncpod.EventRecorderFunc(func(k8sruntime.Object, string, string, string, ...any) {})
	}
	return h.loop.table.events
}

func (h host) RuntimeShouldBeRemoved(uid types.UID) bool {
	return h.isCertain(uid) && h.loop.workers.State(uid).RuntimeShouldBeRemoved
}

func (h host) ContentShouldBeRemoved(uid types.UID) bool {
	return h.isCertain(uid) && h.loop.workers.State(uid).ContentShouldBeRemoved
}

// isCertain reports whether the workers' state of a pod is reliable: the workers have the pod and do not remove
// it to make room for a new pod with its UID, or no source wants it.
func (h host) isCertain(uid types.UID) bool {
	state := h.loop.workers.State(uid)
	return state.Known && !state.Phase.IsOrphan() || h.loop.sources.unwanted(uid)
}
