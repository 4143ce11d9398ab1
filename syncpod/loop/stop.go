package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/shutdown"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// Drain stops all pods, each within its own grace period, and returns when nothing of them runs and
// all are cleaned up, or when ctx ends; new pods are not accepted from now on. The last status of
// each pod then describes the stopped pod; a static pod's phase, which the next agent starts again,
// does not change. Run must be running, and should be ended afterwards. Draining is not persisted:
// the next agent starts the pods again, except those that have finished by their restart policy.
//
// If the Store cannot delete their statuses, no pod is stopped, and Drain returns the errors. If
// ctx ends first, the pods stop nevertheless: the error wraps the cause, and says how many remain
// and why. It is podworkers.ErrStopped if Run has ended.
func (l *Loop) Drain(ctx context.Context) error {
	l.table.mu.Lock()
	pods := l.unfinished()
	l.table.mu.Unlock()
	if err := l.leaveToNextAgent(ctx, pods); err != nil {
		return err
	}
	return l.workers.Drain(ctx, podworkers.StopRequest{})
}

// unfinished returns the pods without a terminal phase, with their last reported status. It requires the table's mu to be held.
func (l *Loop) unfinished() (pods []*v1.Pod) {
	for _, uid := range l.table.uids() {
		if state := l.states.get(uid); !state.over() {
			pods = append(pods, l.table.pods[uid].pod)
		}
	}
	return pods
}

// leaveToNextAgent makes the next agent start pods again, except those that stop already: it deletes their statuses, and their end
// is not stored.
func (l *Loop) leaveToNextAgent(ctx context.Context, pods []*v1.Pod) error {
	var errs []error
	for _, pod := range pods {
		if l.workers.State(pod.UID).TerminationRequested {
			continue
		}
		l.states.update(pod.UID, func(s *podState) { s.drained = true })
		errs = append(errs, l.config.Store.Delete(ctx, pod.UID))
	}
	return errors.Join(errs...)
}

// KillPod stops a pod that its source still wants, for the reason in the request, and waits until it has
// stopped; see podworkers.Workers.KillPod. It returns an error if uid is unknown. If the pod never ran and only
// its report fails, the error says so, and another call retries the report.
//
// This agent does not start the pod again under its UID. With a Store, the next agent does not either, except a
// static pod that was stopped without a Report and has not finished by its restart policy.
func (l *Loop) KillPod(ctx context.Context, uid types.UID, stop podworkers.StopRequest) error {
	pod := l.table.find(uid)
	if pod == nil {
		return fmt.Errorf("loop: pod %s is not known", uid)
	}
	worked := l.states.worked(uid)
	if err := l.workers.KillPod(ctx, podworkers.Update{Pod: pod, Stop: &stop}); err != nil {
		return err
	}
	return l.reportUnstarted(ctx, pod, stop.Report, worked)
}

// reportUnstarted reports a pod that was stopped before its first sync, because no other component
// does. By then the pod may be forgotten, and another pod may have its UID.
func (l *Loop) reportUnstarted(ctx context.Context, pod *v1.Pod, why *podworkers.StopReport, worked *atomic.Bool) error {
	if known := l.states.get(pod.UID); why != nil && !worked.Load() && !known.over() {
		status := pod.Status.DeepCopy()
		status.Phase, status.Reason, status.Message = v1.PodFailed, why.Reason, why.Message
		if why.Disruption {
			disruption := apistatus.DisruptionTarget(why.Message)
			disruption.LastTransitionTime = metav1.Now()
			status.Conditions = append(status.Conditions, disruption)
		}
		l.states.update(pod.UID, func(s *podState) { s.status, s.undelivered = status, true })
	}
	if err := l.sink.repeat(ctx, pod); err != nil {
		return fmt.Errorf("loop: pod %s is stopped, and its status was not reported: %w", podref.Name(pod), err)
	}
	return nil
}

// shutdownSlack is how long a pod's end may exceed its time.
const shutdownSlack = 2 * time.Second

// Shutdown stops all pods because the node is about to shut down, in groups by priority and each
// within the time that p gives it. It returns when nothing of them runs and all are cleaned up,
// when the time is over, or when ctx ends. A group starts when the one before has stopped or its
// time is over; no pod gets more time than it had before. Pods that arrive meanwhile are reported
// as Failed with the reason NodeShutdown, and are not started. Run must be running, and should be
// ended afterwards.
//
// Stopped pods are reported as Failed with the reason Terminated and the condition
// DisruptionTarget, as in a kubelet. The next agent does not start them again, except static ones,
// which no controller replaces. Until its group is stopped a pod keeps running, and its containers
// are restarted.
//
// The error names the pods that are still stopping. They continue, but how long they take is
// unknown.
func (l *Loop) Shutdown(ctx context.Context, p shutdown.Policy) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("loop: shutdown policy: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Total()+shutdownSlack)
	defer cancel()
	l.table.mu.Lock()
	l.reconciler.shuttingDown = true // from now on new pods are rejected
	pods := l.unfinished()
	l.table.mu.Unlock()
	left := l.leaveToNextAgent(ctx, slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool { return !runtime.IsStatic(pod) }))
	for _, group := range shutdown.Order(pods, p) {
		l.config.Log.Info("node shutdown", "group", group.String())
		l.stopGroup(ctx, group)
	}
	none := int64(0)
	err := l.workers.Drain(ctx, podworkers.StopRequest{GracePeriodSeconds: &none, Report: shutdownReport()})
	return errors.Join(left, err)
}

func shutdownReport() *podworkers.StopReport {
	return &podworkers.StopReport{Reason: shutdown.Reason, Message: shutdown.Message, Disruption: true}
}

// stopGroup stops a group's pods, and returns when they have stopped or their time has passed.
// Errors are reported at the end, for all pods that are still stopping.
func (l *Loop) stopGroup(ctx context.Context, group shutdown.Group) {
	ctx, cancel := context.WithTimeout(ctx, group.GracePeriod)
	defer cancel()
	var stops sync.WaitGroup
	for _, s := range group.Stops {
		stops.Go(func() { l.stopForShutdown(ctx, s.Pod.UID, s.GraceSeconds) })
	}
	stops.Wait()
}

func (l *Loop) stopForShutdown(ctx context.Context, uid types.UID, grace int64) {
	err := l.KillPod(ctx, uid, podworkers.StopRequest{GracePeriodSeconds: &grace, Report: shutdownReport()})
	if err != nil && l.table.find(uid) != nil {
		l.config.Log.Info("a pod has not stopped in its time", "podUID", uid, "state", l.workers.State(uid).String(), "reason", err.Error())
	}
}
