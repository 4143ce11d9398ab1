package podworkers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Syncer does the work of pods. A Loop adapts a *syncpod.Syncer to it, whose methods have
// other arguments. Workers call it for many pods at once, and for
// one pod never twice at a time, unless an earlier call was abandoned (see
// Config.AbandonAfter).
//
// The context of a call is that of Workers.Run, without its deadline: it is
// cancelled when other work has become more urgent (context.Cause is
// ErrInterrupted), when the workers stop (ErrStopped), and when the call has
// returned. What a call was lent, the work and the status, is read-only and may
// be kept.
//
// A call may be repeated at any time, also after it has succeeded, and so begins
// with what it finds. It may call any method of the Workers but those that wait:
// Run, KillPod and Drain.
type Syncer interface {
	// SyncPod brings the pod to where its definition says. It must return soon
	// after its context is cancelled, with an error.
	SyncPod(ctx context.Context, w Work, status *runtime.PodStatus) (Result, error)
	// SyncTerminatingPod stops the pod and returns nil only when no container of
	// it runs: after that nobody looks for them any more. When it is cancelled
	// with ErrInterrupted it is called again with an earlier deadline.
	SyncTerminatingPod(ctx context.Context, w Work, status *runtime.PodStatus) error
	// SyncTerminatingRuntimePod does the same for a pod of which only what the
	// runtime knows is known: the work has a RuntimePod and no Pod.
	SyncTerminatingRuntimePod(ctx context.Context, w Work, status *runtime.PodStatus) error
	// SyncTerminatedPod cleans up after a pod that has stopped.
	SyncTerminatedPod(ctx context.Context, w Work, status *runtime.PodStatus) error
	// RemovePod removes all that the node has of an orphaned pod, its records last, and
	// returns nil only when nothing is left: the pod is forgotten then, and a new pod may
	// have its UID. The work has a Pod if its definition is known.
	RemovePod(ctx context.Context, w Work, status *runtime.PodStatus) error
}

// Result is what SyncPod found.
type Result struct {
	// Terminal: the pod is over, by its restart policy or because its node has refused it
	// for good, and is to be stopped.
	Terminal bool
	// Next is when the pod is to be looked at again at the latest, such as the end
	// of a back-off. Zero asks for nothing: the pod is looked at when there is news
	// or after Config.ResyncInterval. A time that has passed means soon, see
	// Config.RetryTransient.
	Next time.Time
}

// StatusSource knows what the runtime reports of a pod.
type StatusSource interface {
	// Fresh returns the pod's status from a read that began at since or later. It
	// makes such a read if there was none, rather than wait for the next poll, and
	// returns when the context is cancelled. The zero since asks for any status. A
	// nil status without an error is a pod of which the runtime knows nothing.
	Fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error)
}
