package syncpod

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podref"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// StatusSink receives the status of a pod, as package status computes it, whenever it differs from the previous
// one. It is called for one pod at a time, and never with an older status after a newer one.
//
// The steps of a sync do not wait for it, but the end of each call of the Syncer does, for at most 5 s. An error
// makes the call fail, after all its other steps; the next call delivers the status, or a newer one. The status
// belongs to the sink, the pod must not be modified.
type StatusSink interface {
	SetPodStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error
}

// StatusSinkFunc is a function that is a [StatusSink].
type StatusSinkFunc func(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error

// SetPodStatus calls f.
func (f StatusSinkFunc) SetPodStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	return f(ctx, pod, status)
}

// copies gives a StatusSink a copy of each status, which it may keep and modify.
type copies struct{ StatusSink }

func (c copies) KeepPodStatus(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) error {
	return c.SetPodStatus(ctx, pod, *status.DeepCopy())
}

// nopSink replaces a missing [StatusSink].
type nopSink struct{}

func (nopSink) KeepPodStatus(context.Context, *v1.Pod, *v1.PodStatus) error { return nil }

// reportTimeout bounds the delivery of a status.
const reportTimeout = 5 * time.Second

// statusFacts are the facts of a status in addition to the runtime's report.
type statusFacts struct {
	// failed are the errors that keep containers from running.
	failed []*StepError
	// started are the errors before the starts that have succeeded since.
	started []pastFailure
	// blocked is why the pod may not run.
	blocked *apistatus.Problem
	// terminal means that no container of the pod runs or will run again. ended means that this is the last status.
	terminal, ended bool
	// conditions are the conditions about a resize.
	conditions []v1.PodCondition
	// mayStart means that the call may still start a container: the status does not get a terminal phase. The next decision
	// ends the pod, and reports it.
	mayStart bool
}

// pastFailure is an error that kept a container from running until a start succeeded. The container is reported as waiting for it until
// a status shows the new instance, and no longer: the new instance may have ended by then.
type pastFailure struct {
	*StepError
	// last is the container's instance before the start, empty for none.
	last string
}

func (f pastFailure) counts(status *runtime.PodStatus) bool {
	c := status.Latest(f.Container.Name)
	return c == nil || idOf(c) == f.last
}

// idOf returns the ID of an instance, empty for none.
func idOf(c *runtime.ContainerStatus) string {
	if c == nil {
		return ""
	}
	return c.ID.ID
}

// report reports one pod during one call of the Syncer: statuses are delivered concurrently with
// the work, and the call waits for the last one at its end.
type report struct {
	*Syncer
	pod        atomic.Pointer[v1.Pod] // the newest definition, as the caller has passed it
	memory     *podMemory
	deliveries sync.WaitGroup

	// status is the newest status of the runtime that was reported, facts are the last ones. The lock of the statusBox guards them,
	// and is held while a status is computed, so that none is computed from an older status of the runtime after one from a
	// newer one.
	status *runtime.PodStatus
	facts  statusFacts

	// changed has a value when reportChanges has reported something.
	changed chan struct{}
}

func (s *Syncer) newReport(pod *v1.Pod, m *podMemory) *report {
	m.beginReports()
	r := &report{Syncer: s, memory: m, changed: make(chan struct{}, 1)}
	r.pod.Store(pod)
	return r
}

// update computes the status, and starts its delivery if it has changed. If a newer status of the runtime was reported in this
// call, it counts.
func (r *report) update(ctx context.Context, status *runtime.PodStatus, o statusFacts) {
	box := &r.memory.reported
	box.mu.Lock()
	defer box.mu.Unlock()
	if r.status == nil || status == nil || !r.status.ObservedAt.After(status.ObservedAt) {
		r.status = status
	}
	r.facts = o
	r.publish(ctx, o)
}

// reportNewest reports the newest observed status.
func (r *report) reportNewest(ctx context.Context, mayStart bool) {
	newer := r.memory.observedAfter(r.newerOf(nil))
	if newer != nil {
		newer = r.withMessages(r.pod.Load(), r.memory, newer) // it may wait for a disk
	}
	box := &r.memory.reported
	box.mu.Lock()
	defer box.mu.Unlock()
	if newer != nil && isNewer(newer, r.status) { // an even newer one may have been reported meanwhile
		r.status = newer
		if mayStart {
			r.config.Parts.Probes.Observe(r.pod.Load(), r.memory.forProbes(newer), false) // containers that the call has started are probed
		}
	}
	o := r.facts
	o.mayStart = mayStart
	r.publish(ctx, o)
}

// publish computes the status from the newest facts. It must be called with the lock of the statusBox held.
func (r *report) publish(ctx context.Context, o statusFacts) {
	pod := r.pod.Load()
	before, now := r.memory.reported.replace(&pod.Status, func(previous *v1.PodStatus) v1.PodStatus {
		next := apistatus.Merge(r.visible(previous), r.compute(previous, o, r.memory.show(pod, r.status, o.terminal, reportsRestartOfAll(previous))))
		if o.mayStart && runtime.IsTerminal(next.Phase) {
			return *previous
		}
		if shown := r.visible(previous); !o.terminal && runtime.IsTerminal(next.Phase) && !runtime.IsTerminal(shown.Phase) && r.config.unpreparesDevices(pod) {
			next.Phase = cmp.Or(shown.Phase, v1.PodPending)
		}
		return next
	})
	if now.Phase == v1.PodRunning && before != v1.PodRunning {
		r.config.Observer.PodRunning(pod, time.Since(r.memory.firstSeen))
	}
	r.deliveries.Go(func() { r.deliver(ctx) })
}

// newerOf returns the newer one of a status and the reported one.
func (r *report) newerOf(status *runtime.PodStatus) *runtime.PodStatus {
	box := &r.memory.reported
	box.mu.Lock()
	defer box.mu.Unlock()
	if status == nil || r.status != nil && r.status.ObservedAt.After(status.ObservedAt) {
		return r.status
	}
	return status
}

// changeDelay is how long a change waits for the end of a SyncPod, which is followed by another one that reports it.
const changeDelay = 100 * time.Millisecond

// reportChanges reports the status while the steps of a call are in flight, because they may take minutes (kubernetes #129552): each
// newer status of the runtime that is observed, and the results of probes that have changed. It waits for
// the delay before each report. mayStart is the field of statusFacts with this name.
func (r *report) reportChanges(ctx context.Context, delay time.Duration, mayStart bool) (end func()) {
	if r.memory.observedAfter(r.newerOf(nil)) != nil {
		r.memory.wake()
	}
	ended := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		for r.awaitUnreported(ctx, ended, delay) {
			r.reportNewest(ctx, mayStart)
			select {
			case r.changed <- struct{}{}:
			default: // a value is pending
			}
		}
	})
	return func() {
		close(ended)
		reporting.Wait()
	}
}

// awaitUnreported returns true when there is something to report, and false at the end of the call.
func (r *report) awaitUnreported(ctx context.Context, ended <-chan struct{}, delay time.Duration) bool {
	select {
	case <-r.memory.unreported:
	case <-ended:
		return false
	case <-ctx.Done():
		return false
	}
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ended:
			return false
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		r.memory.wake() // another call may have begun
		return false
	}
	return true
}

// visible returns the last status visible to all: the last reported one, or one with a terminal
// phase set by another component.
func (r *report) visible(reported *v1.PodStatus) *v1.PodStatus {
	if theirs := &r.pod.Load().Status; runtime.IsTerminal(theirs.Phase) && (reported == nil || !runtime.IsTerminal(reported.Phase)) {
		return theirs
	}
	return reported
}

// wait delivers the pending status, and returns the error of a failed delivery.
func (r *report) wait(ctx context.Context) error {
	r.deliveries.Wait()
	r.deliver(ctx)
	if err := r.memory.reported.undelivered(); err != nil {
		return fmt.Errorf("report the status of pod %s: %w", podref.Name(r.pod.Load()), err)
	}
	return nil
}

// compute computes the status of the API.
func (r *report) compute(previous *v1.PodStatus, o statusFacts, shown shownPod) v1.PodStatus {
	pod, failed := r.pod.Load(), slices.Clone(o.failed)
	for _, f := range o.started {
		if f.counts(shown.status) {
			failed = append(failed, f.StepError)
		}
	}
	conditions := append(shown.conditions, o.conditions...)
	if shown.startsOver {
		conditions = append(conditions, v1.PodCondition{
			Type: v1.AllContainersRestarting, Status: v1.ConditionTrue, Reason: "RestartAllContainersStarted", Message: "a container has ended as its restart rules name",
		})
	}
	computed := apistatus.GeneratePodStatus(apistatus.Input{
		Pod: r.config.allocated(pod), Previous: previous, Status: shown.status, Terminal: o.terminal, Ended: o.ended, Blocked: o.blocked, Evicted: shown.evicted,
		Restarting: shown.restarting, StartsOver: shown.startsOver, Conditions: conditions, StartErrors: startErrors(failed),
		Probes: r.config.Parts.Probes.ProbeResults(pod.UID), Devices: r.config.devices(pod), HostIPs: r.config.Node.hostIPs(),
		RecursiveReadOnly: r.config.recursiveReadOnly(shown.status), Now: time.Now(),
	})
	r.memory.secrets.redactStatus(&computed)
	return computed
}

// showsEnd reports whether the status would have a terminal phase: it has one only when no container of the pod runs any more.
func (r *report) showsEnd(known recalled) bool {
	return runtime.IsTerminal(r.compute(r.memory.reported.lastOr(&r.pod.Load().Status), statusFacts{failed: known.failed}, known.shown).Phase)
}

// reportsRestartOfAll reports whether a status reports that all containers restart (KEP-5532).
func reportsRestartOfAll(s *v1.PodStatus) bool {
	return s != nil && slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue
	})
}

// devices returns the devices of the pod's containers.
func (c *Config) devices(pod *v1.Pod) map[string][]v1.ResourceStatus {
	if c.Extensions.Devices == nil {
		return nil
	}
	return c.Extensions.Devices.Devices(pod)
}

// unpreparesDevices reports whether the pod's end is reported only after its devices were released.
func (c *Config) unpreparesDevices(pod *v1.Pod) bool {
	_, prepares := c.Extensions.Devices.(PodDevices)
	return prepares && (len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil)
}

// recursiveReadOnly reports whether the runtime can mount the volumes of a pod recursively read-only.
func (c *Config) recursiveReadOnly(status *runtime.PodStatus) bool {
	handler := ""
	if sandbox := status.LatestSandbox(); sandbox != nil {
		handler = sandbox.RuntimeHandler
	}
	return slices.Contains(c.Node.RecursiveReadOnly, handler)
}

// startErrors returns the failures to start containers, by name.
func startErrors(failed []*StepError) map[string]apistatus.Problem {
	problems := map[string]apistatus.Problem{}
	for _, f := range failed {
		if f.Container.Name == "" || f.Step == stepKill || f.Step == stepResize || f.Step == stepCPUSet {
			continue
		}
		problem := apistatus.Problem{Reason: apistatus.Reason(f.Reason)}
		if f.Err != nil {
			problem.Message = f.Err.Error()
		}
		problems[f.Container.Name] = problem
	}
	return problems
}

// deliver passes the status to the sink, unless this was done, or has failed in this call.
func (r *report) deliver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	r.memory.reported.deliver(ctx, func(status *v1.PodStatus) error {
		return r.config.Parts.StatusKeeper.KeepPodStatus(ctx, r.pod.Load(), status)
	})
}

// statusBox holds the last computed status of a pod, and whether it was delivered. It outlives calls, even
// abandoned ones. Its lock also guards the fields of a report.
type statusBox struct {
	mu sync.Mutex
	// last is the status computed last, nil before the first.
	last *v1.PodStatus
	// waits is set while last has not been delivered. tried is the status of the last attempt, and err its
	// error.
	waits bool
	tried *v1.PodStatus
	err   error
	// delivering is held during a delivery.
	delivering cancelableLock
}

// retry allows one more attempt to deliver the status.
func (b *statusBox) retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tried = nil
}

// replace computes the next status from the last one, initially that of the pod itself. It returns
// the previous phase and the new status. It must be called with mu held.
func (b *statusBox) replace(first *v1.PodStatus, next func(previous *v1.PodStatus) v1.PodStatus) (before v1.PodPhase, now *v1.PodStatus) {
	previous := cmp.Or(b.last, first)
	status := next(previous)
	news := !reflect.DeepEqual(previous, &status)
	b.waits = b.waits || news
	if news || b.last == nil {
		b.last = &status
	}
	return previous.Phase, b.last
}

// lastOr returns the last status, or first if there is none.
func (b *statusBox) lastOr(first *v1.PodStatus) *v1.PodStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return cmp.Or(b.last, first)
}

// deliver calls set with the last status, unless that was delivered or tried.
func (b *statusBox) deliver(ctx context.Context, set func(*v1.PodStatus) error) {
	if b.delivering.lock(ctx) == nil {
		defer b.delivering.unlock()
	} // otherwise ctx has ended, and its error is why the status was not delivered
	status := b.pending()
	if status == nil {
		return
	}
	err := ctx.Err()
	if err == nil {
		err = set(status)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.tried, b.err = status, err
		return
	}
	b.waits = b.last != status
}

func (b *statusBox) pending() *v1.PodStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.waits || b.tried == b.last {
		return nil
	}
	return b.last
}

// undelivered returns why the last status was not delivered, nil if it was.
func (b *statusBox) undelivered() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits {
		return b.err
	}
	return nil
}
