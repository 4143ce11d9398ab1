package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
	statusstore "github.com/podsync/podsync/syncpod/store"
)

// sink receives pod statuses, stores them, and passes them on to the embedder. Neither depends
// on the success of the other (virtual-kubelet #938).
type sink struct {
	*podStates
	// seen returns a pod's last status in the runtime.
	seen  func(types.UID) *runtime.PodStatus
	store statusstore.Store
	next  syncpod.StatusSink // nil if the embedder has none
}

var _ syncpod.StatusKeeper = sink{}

// KeepPodStatus stores the status before the embedder gets it, so that the next agent cannot take
// back a reported status. The Syncer shares the status; neither modifies it.
func (s sink) KeepPodStatus(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) error {
	s.update(pod.UID, func(s *podState) { s.status, s.undelivered = status, false })
	return s.deliver(ctx, pod, *status.DeepCopy())
}

// repeat delivers the status of a pod that the Syncer has not delivered, if there is one. It is called
// after the Syncer's work: an earlier agent's stored status may be older than the one that the agent
// reported.
func (s sink) repeat(ctx context.Context, pod *v1.Pod) error {
	state := s.get(pod.UID)
	if !state.undelivered || state.status == nil || ctx.Err() != nil {
		return ctx.Err() // a cancelled call must not report after its successors
	}
	if err := s.deliver(ctx, pod, *state.status.DeepCopy()); err != nil {
		return err
	}
	s.update(pod.UID, func(s *podState) { s.undelivered = s.undelivered && s.status != state.status })
	return nil
}

// deliveryTimeout bounds each delivery of a status, as a Syncer without a Loop does.
const deliveryTimeout = 5 * time.Second

// deliver stores a status and passes it on. All statuses take this path: those of the Syncer, and those of pods that it has not
// synced.
func (s sink) deliver(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	var errs []error
	if !s.get(pod.UID).drained && !mayComeAgain(pod) {
		if err := s.keep(ctx, pod, status); err != nil {
			errs = append(errs, fmt.Errorf("store: %w", err))
		}
	}
	if s.next != nil {
		errs = append(errs, s.next.SetPodStatus(ctx, pod, status))
	}
	return errors.Join(errs...)
}

func (s sink) keep(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	return s.store.SetStatus(ctx, statusstore.Status{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Status: status, Runtime: s.seen(pod.UID)})
}

// mayComeAgain reports whether a pod may return after its end, so that its end must not be recorded: a static pod whose
// manifest was removed has the same UID when the manifest is added again, and must then run, even if the agent was
// killed in the meantime.
func mayComeAgain(pod *v1.Pod) bool { return runtime.IsStatic(pod) && pod.DeletionTimestamp != nil }
