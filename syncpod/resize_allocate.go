package syncpod

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/resize"
)

// allocating gets the pod's allocation, and reports which part of it the containers do not have yet.
type allocating struct{ *work }

// allocate replaces the pod with its allocated version. For a deleted pod it makes no new decision.
func (w allocating) allocate(ctx context.Context) error {
	if w.config.Extensions.Allocations == nil {
		return nil
	}
	if w.pod.DeletionTimestamp != nil {
		w.pod = w.config.allocated(w.pod)
		return nil
	}
	answer, err := w.config.Extensions.Allocations.Allocate(ctx, w.pod)
	if err == nil && answer.Pod == nil {
		err = errors.New("Extensions.Allocations returned neither a pod nor an error")
	}
	if err != nil {
		return fmt.Errorf("syncpod: resources of pod %s: %w", podref.Name(w.pod), err)
	}
	w.pod, w.allocated = answer.Pod, answer
	return nil
}

// allocated returns the pod with its allocated resources.
func (c *Config) allocated(pod *v1.Pod) *v1.Pod {
	if c.Extensions.Allocations == nil {
		return pod
	}
	return c.Extensions.Allocations.Allocated(pod)
}

// resizeConditions returns conditions for requested resources that are not allocated, and for allocated resources that
// the containers do not have yet.
func (w allocating) resizeConditions(failed []*StepError) (conditions []v1.PodCondition) {
	if waits := w.allocated.Waits; waits != nil && waits.Outcome != resize.Accepted {
		conditions = append(conditions, v1.PodCondition{
			Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: string(waits.Outcome), Message: waits.Message,
		})
	}
	why := w.resizeErrors(failed)
	if !w.resizing() && w.memoryInUse == nil {
		return conditions
	}
	c := v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}
	if len(why) > 0 {
		c.Reason, c.Message = v1.PodReasonError, strings.Join(why, "; ")
	}
	return append(conditions, c)
}

// resizeErrors returns a resize's errors, by container, and for the pod as a whole.
func (w allocating) resizeErrors(failed []*StepError) (why []string) {
	for _, f := range failed {
		switch {
		case f.Step != stepResize || f.Err == nil:
		case f.Container.Name == "":
			why = append(why, "pod: "+withoutIDs(f.Err, w.idNames()...))
		default:
			why = append(why, fmt.Sprintf("container %s: %s", f.Container.Name, withoutIDs(f.Err, w.idNames()...)))
		}
	}
	return why
}

// resizeReported is the last resize reported in events.
type resizeReported struct {
	waits   resize.Verdict
	started bool
}

// reportResize records an event when a resize waits, for each new reason, and when it starts.
func (w allocating) reportResize(conditions []v1.PodCondition) {
	var now resizeReported
	for _, c := range conditions {
		switch c.Type {
		case v1.PodResizePending:
			now.waits = *w.allocated.Waits
		case v1.PodResizeInProgress:
			now.started = true
		}
	}
	before := w.memory.replaceResize(now)
	if now.waits != before.waits && now.waits != (resize.Verdict{}) {
		reason := EventResizeDeferred
		if now.waits.Outcome == resize.Infeasible {
			reason = EventResizeInfeasible
		}
		w.eventf(podref.Pod(w.pod), v1.EventTypeWarning, reason, "Pod resize %s: %s", now.waits.Outcome, now.waits.Message)
	}
	if now.started && !before.started {
		w.eventf(podref.Pod(w.pod), v1.EventTypeNormal, EventResizeStarted, "Pod resize started")
	}
}

// replaceResize stores the reported state and returns the previous one.
func (m *podMemory) replaceResize(now resizeReported) (before resizeReported) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resize != nil {
		before = *m.resize
	}
	m.resize = nil
	if now != (resizeReported{}) {
		m.resize = &now
	}
	return before
}

// resizing reports whether the resources of a running container differ from its allocation.
func (w allocating) resizing() bool {
	for _, step := range w.plan.Resize {
		if !w.resized[step.ID] {
			return true
		}
	}
	for _, k := range w.plan.Kill {
		if k.Reason == actions.ResizeRestart {
			return true
		}
	}
	return false
}
