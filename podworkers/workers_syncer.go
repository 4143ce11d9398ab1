package podworkers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Syncer does the work of pods. Workers call it for many pods concurrently, but never concurrently for one
// pod, unless an earlier call was abandoned (see the package documentation). Package syncpod/worker adapts a
// *syncpod.Syncer to this interface.
//
// The context of a call derives from Workers.Run's context, without its deadline: it is cancelled when other work has
// become more urgent (context.Cause is ErrInterrupted), when the workers stop (ErrStopped), and when the call has
// returned. The work and the status are read-only; the Syncer may keep them.
//
// Failed work is retried. Errors may have two methods, which Workers find with errors.As: RetryAt() time.Time returns the
// time of the next attempt, and Temporary() bool reports whether the cause probably disappears within seconds.
//
// Workers may repeat a call at any time, even after it has succeeded, so each call must start from the pod's current
// state. It may call any method of the Workers except those that wait: Run, KillPod and Drain.
type Syncer interface {
	// SyncPod brings the pod to its definition's state. After the cancellation of its context it
	// must soon return an error.
	SyncPod(ctx context.Context, w Work, status *runtime.PodStatus) (Result, error)
	// SyncTerminatingPod stops the pod. It must return nil only when no container in the pod runs,
	// because Workers do not stop the pod again. If it is cancelled with ErrInterrupted, it is
	// called again with an earlier deadline.
	SyncTerminatingPod(ctx context.Context, w Work, status *runtime.PodStatus) error
	// SyncTerminatingRuntimePod does the same for a pod that only the runtime knows: the work has a
	// RuntimePod and no Pod.
	SyncTerminatingRuntimePod(ctx context.Context, w Work, status *runtime.PodStatus) error
	// SyncTerminatedPod cleans up the resources of a pod that has stopped.
	SyncTerminatedPod(ctx context.Context, w Work, status *runtime.PodStatus) error
	// RemovePod removes an orphaned pod from the node, its records last. It must return nil only when
	// nothing is left: the pod is forgotten then, and a new pod may have its UID. The work has a Pod if
	// the definition is known.
	RemovePod(ctx context.Context, w Work, status *runtime.PodStatus) error
}

// Result is SyncPod's result.
type Result struct {
	// Terminal means that the pod has finished, by its restart policy or because the node rejected it, and must be
	// stopped.
	Terminal bool
	// Next is the latest time of the next sync, such as a back-off's end. Zero requests none: the next
	// sync follows an update or Config.ResyncInterval. If the time has passed, Workers wait 1 s.
	Next time.Time
}

// StatusSource returns the status of a pod from the runtime.
type StatusSource interface {
	// GetNewerThan returns the pod's status from a read that began after since: a read that began at the same time may show the
	// pod as it was before its last work. If there was no such read, it reads the runtime at once instead of waiting for the next
	// poll. It returns when the context is cancelled. The zero since accepts any status. runtime.Cache.Newer compares in the same
	// way. A nil status without an error means that the runtime does not have the pod.
	GetNewerThan(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error)
}
