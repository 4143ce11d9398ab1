package loop

import (
	"context"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod"
)

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
