package syncpod

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/resize"
)

// Result is what a SyncPod returns.
type Result struct {
	// Plan is the sync's plan.
	Plan actions.Plan
	// Terminal means that the pod has finished or is deleted: nothing was done, and the caller must
	// call SyncTerminatingPod.
	Terminal bool
	// Failed are the errors that keep containers from running, in the plan's order: failures
	// in this call, and steps that wait after earlier ones.
	Failed []*StepError
	// NextTry is when the next sync is due: when the first of Failed may be retried or must be
	// reported as backing off, or when the pod's volumes must be checked, whichever is first. Zero
	// if none is needed.
	NextTry time.Time
}

// SyncPod brings a pod one step closer to its definition, in the order that the package's documentation gives. status is the
// pod's status in the runtime, read after the pod's last SyncPod has returned. If it is nil, or was not read after
// the last call that changed the runtime (PodStatus.ObservedAt), SyncPod reads it.
//
// The error joins all failures. Its methods RetryAt and Temporary determine when to call SyncPod again. A step that
// waits for its back-off is not an error; Result.NextTry says when to call again. When ctx ends, all calls in
// flight end, too, and SyncPod returns; the next SyncPod continues from the state that the runtime reports.
func (s *Syncer) SyncPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) (Result, error) {
	if err := validate(pod); err != nil {
		return Result{}, err
	}
	p, err := s.open(ctx, pod)
	d, done := &decision{openPod: p}, outcome{}
	inFlight, endReports := newFlights(ctx), func() {}

	for first, again := true, err == nil; again; first = false {
		if !first {
			p = s.follow(ctx, p, inFlight)
		}
		d, done = &decision{openPod: p}, outcome{resized: done.resized}
		if status, err = s.inspect(ctx, p, status); err != nil {
			break
		}
		d.status = s.rememberStatus(ctx, p, status)
		if !first { // containers that the call has started are probed
			s.config.Parts.Probes.Observe(p.pod, p.memory.forProbes(d.status), false)
		}

		d.facts = s.gather(ctx, p, d.status, inFlight.names())
		d.plan = s.decide(d.facts.Input)
		if inFlight.any() && endsFlights(d.plan) {
			inFlight.end()
			inFlight, d.facts.InFlight = newFlights(ctx), nil
			d.plan = s.decide(d.facts.Input)
		}
		s.learn(ctx, p, &d.facts)
		if !d.plan.NoOp() {
			s.config.Observer.PlanMade(p.pod, d.plan)
		}
		done.status = d.status
		s.reportPod(ctx, d, &done, d.facts.failed)
		if first && !d.plan.NoOp() && !d.plan.TerminatesPod() {
			endReports = p.report.reportChanges(ctx, changeDelay, true)
		}

		done = s.apply(ctx, d, done, inFlight)
		s.conclude(ctx, d, &done)
		done.nextRefresh = s.refresh(ctx, d, done.outdated)

		if again = inFlight.any(); again { // until a change needs another decision, or all has ended
			done, again = s.await(ctx, d, done, inFlight)
			s.conclude(ctx, d, &done)
			p.memory.setChanged() // by an earlier plan's step, perhaps
			status = p.memory.newestObserved()
		}
		err = joined(done.failed)
	}

	endReports()
	inFlight.end()
	if !d.plan.NoOp() {
		p.memory.setChanged()
	}
	return d.result(&done), errors.Join(err, p.report.wait(ctx))
}

// openPod is a pod in one call to SyncPod.
type openPod struct {
	// pod is the pod with its allocated resources, and allocation the Allocations' answer.
	pod        *v1.Pod
	allocation resize.Answer
	memory     *podMemory
	report     *report
}

// decision is a plan, with the status and the facts that it follows from. No step changes it.
type decision struct {
	*openPod
	status *runtime.PodStatus
	facts  facts
	plan   actions.Plan
}

// outcome is what a plan's steps have led to so far.
type outcome struct {
	// failed are the errors that keep containers from running, in the plan's order.
	failed []*StepError
	// started are the containers that were started. handled means that the postStart handler of one has ended well.
	started []string
	handled bool
	// unstopped are the containers that must not be started because one of their instances could not be stopped, or is being
	// stopped.
	unstopped []string
	// status is the status with the changes since: the new sandbox, and new resources.
	status *runtime.PodStatus
	// sandbox is the sandbox for new containers, nil if none can be started.
	sandbox *inUse
	// memoryInUse is why the pod's own memory limit was not lowered, nil if it was.
	memoryInUse *StepError
	// resized are the instances that have received their allocation in this call.
	resized []runtime.ContainerID
	// outdated means that the preparation has tried in vain to update volumes. nextRefresh is when the pod's volumes must be
	// refreshed, zero if they need not be.
	outdated    bool
	nextRefresh time.Time
}

// fail notes a failed step, if there is one.
func (o *outcome) fail(e *StepError) {
	if e != nil {
		o.failed = append(o.failed, e)
	}
}

// endsFlights reports whether a plan stops the pod, or starts it over: no start in an earlier plan may be completed then.
func endsFlights(p actions.Plan) bool { return p.KillPod || p.Sandbox.Create || len(p.Reset) > 0 }

func validate(pod *v1.Pod) error {
	if err := (actions.Input{Pod: pod}).Validate(); err != nil {
		return fmt.Errorf("syncpod: %w", err)
	}
	if pod.UID == "" {
		return fmt.Errorf("syncpod: pod %s: metadata.uid is empty", podref.Name(pod))
	}
	if n := len(pod.UID); n > validation.LabelValueMaxLength { // it is a label's value
		return fmt.Errorf("syncpod: pod %s: metadata.uid has %d characters, want at most %d", podref.Name(pod), n, validation.LabelValueMaxLength)
	}
	return nil
}

// open gets a pod's memory and its allocation.
func (s *Syncer) open(ctx context.Context, pod *v1.Pod) (*openPod, error) {
	m := s.memoryOf(ctx, pod.UID)
	if newest := s.newest(pod.UID); newest != nil {
		pod = newest
	}
	m.noteRunOnce(pod)
	p := &openPod{pod: pod, memory: m, report: s.newReport(pod, m)}
	answer, err := s.allocate(ctx, pod)
	if err == nil {
		p.pod, p.allocation = answer.Pod, answer
	}
	return p, err
}

// newest returns the newest definition of a pod, nil if it is unknown.
func (s *Syncer) newest(pod types.UID) *v1.Pod {
	if s.config.Parts.Newest == nil {
		return nil
	}
	return s.config.Parts.Newest(pod)
}

// follow returns the pod with its newest definition, because a change must not wait for a pull, a stop or a handler. The starts in
// flight of changed containers are given up, to be decided again. If the new resources cannot be allocated now, the pod keeps its
// definition, and the next call reports the error.
func (s *Syncer) follow(ctx context.Context, p *openPod, inFlight *flights) *openPod {
	newest := s.newest(p.pod.UID)
	if newest == nil || newest == p.report.pod.Load() || !inFlight.fit(newest) {
		return p
	}
	answer, err := s.allocate(ctx, newest)
	if err != nil {
		return p
	}
	p.memory.noteRunOnce(newest)
	p.report.pod.Store(newest)
	inFlight.giveUp(func(st *startFlight) bool {
		return !reflect.DeepEqual(st.step.Container.Spec(p.pod), st.step.Container.Spec(answer.Pod))
	})
	return &openPod{pod: answer.Pod, allocation: answer, memory: p.memory, report: p.report}
}

// inspect returns the given status, or reads one. Before that it removes sandboxes that appeared late, beside the one in use:
// otherwise the pod would start over in one of them.
func (s *Syncer) inspect(ctx context.Context, p *openPod, status *runtime.PodStatus) (*runtime.PodStatus, error) {
	var err error
	if status != nil && s.config.Parts.Sandboxes.Unresolved(p.pod.UID) {
		err = s.config.Parts.Sandboxes.Resolve(ctx, p.pod.UID, p.memory.sandboxInUse(status))
		status = nil
	}
	if err == nil && (status == nil || p.memory.isStale(status)) {
		status, err = s.read(ctx, p.pod.UID, nil)
	}
	if err = p.memory.secrets.redactError(err); err != nil {
		s.warn(ctx, p.pod, EventFailedSync, "error determining status: %v", err)
		return nil, fmt.Errorf("syncpod: pod %s: %w", podref.Name(p.pod), err)
	}
	return status, nil
}

// read reads a pod's status.
func (s *Syncer) read(ctx context.Context, pod types.UID, last *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := s.config.Parts.Statuses.PodStatus(ctx, pod, last)
	if err == nil && status == nil {
		err = errors.New("the reader of statuses returned neither a status nor an error")
	}
	return status, err
}

// rememberStatus remembers a status, and returns it completed from memory. It is the only step before the plan that changes anything: the
// runtime may lose what the status shows, so it must be remembered even if the call gets no further.
func (s *Syncer) rememberStatus(ctx context.Context, p *openPod, read *runtime.PodStatus) *runtime.PodStatus {
	full := s.withMessages(p.pod, p.memory, p.memory.withoutCutStarts(read))
	completed := p.memory.see(read, full)
	s.postStopExited(ctx, p.pod, p.memory, full)
	s.releaseMounts(p.memory, startHasEnded(full))
	p.memory.Record(ctx)
	return completed
}

// withMessages returns a status in which exited containers have their termination message. Each
// message is read once, because it does not change.
func (s *Syncer) withMessages(pod *v1.Pod, m *podMemory, status *runtime.PodStatus) *runtime.PodStatus {
	if pod == nil {
		return status
	}
	full := *status
	full.Containers = slices.Clone(status.Containers)
	for i := range full.Containers {
		if c := &full.Containers[i]; c.State == runtime.ContainerExited {
			if spec, err := runtime.FindContainer(pod, c.Name); err == nil {
				c.Message = m.secrets.redactMessage(spec, c.Message)
			}
			if s.config.Parts.Messages != nil {
				c.Message = s.message(pod, m, c)
			}
		}
	}
	return &full
}

func (s *Syncer) message(pod *v1.Pod, m *podMemory, c *runtime.ContainerStatus) string {
	if message, known := m.message(c.ID.ID); known {
		return message
	}
	message, err := s.config.Parts.Messages.TerminationMessage(pod, c)
	if err != nil {
		s.log(pod).Error(err, "termination message not read", "container", c.Name)
	}
	return m.setMessage(c.ID.ID, message)
}

// postStopExited calls the hook after a stop for the containers that have exited, by themselves or with an earlier agent.
func (s *Syncer) postStopExited(ctx context.Context, pod *v1.Pod, m *podMemory, status *runtime.PodStatus) {
	for i := range status.Containers {
		if c := &status.Containers[i]; c.State == runtime.ContainerExited {
			s.stopper.PostStop(ctx, pod, c, m)
		}
	}
}

// reportPod reports a pod's status with these failures, and those before the starts that have succeeded.
func (s *Syncer) reportPod(ctx context.Context, d *decision, done *outcome, failed []*StepError, started ...pastFailure) {
	conditions := resizeConditions(d, done, failed)
	s.reportResize(d, conditions)
	o := statusFacts{failed: failed, started: started, conditions: conditions}
	if d.plan.Hold.Reason == actions.PodNotAdmitted {
		o.blocked = d.facts.rejected.problem()
	}
	d.report.update(ctx, done.status, o)
}

// conclude records and reports the steps' failures so far.
func (s *Syncer) conclude(ctx context.Context, d *decision, done *outcome) {
	kept, started := done.unresolved(d.facts.failed)
	d.memory.setFailed(slices.Concat(kept, done.failed))
	if len(d.facts.failed)+len(done.failed)+len(d.plan.Resize) > 0 {
		s.reportPod(ctx, d, done, slices.Concat(kept, done.failed), started...)
	}
}

// unresolved returns the earlier failures to start containers that have not failed again:
// those of containers that were not started in this work, and those of containers that were,
// but whose status is from before. A container waits for the same reason until its start has
// succeeded and a status shows it, so that its reported state does not change in between.
func (o *outcome) unresolved(before []*StepError) (kept []*StepError, started []pastFailure) {
	for _, f := range before {
		name := f.Container.Name
		again := slices.ContainsFunc(o.failed, func(now *StepError) bool { return now.Container.Name == name })
		c := o.status.Latest(name)
		switch {
		case name == "" || again || c != nil && c.State == runtime.ContainerRunning:
		case slices.Contains(o.started, name):
			started = append(started, pastFailure{f, idOf(c)})
		default:
			kept = append(kept, f)
		}
	}
	return kept, started
}

// refreshRetry is the pause after an update that a start has tried in vain.
const refreshRetry = 30 * time.Second

// refresh updates the running containers' volumes, and returns when to do it again. A failure is reported and retried; the
// containers keep running with the previous contents. It takes no longer than a start waits for news, because a container may
// exit meanwhile, and is not tried right after an update that has failed.
func (s *Syncer) refresh(ctx context.Context, d *decision, outdated bool) (next time.Time) {
	if s.config.Parts.Refresh == nil || d.plan.TerminatesPod() || d.plan.Hold.Reason == actions.PodNotAdmitted || ctx.Err() != nil {
		return time.Time{}
	}
	if outdated {
		return time.Now().Add(refreshRetry)
	}
	bounded, cancel := context.WithTimeout(ctx, lastknown.Patience)
	defer cancel()
	next, err := s.config.Parts.Refresh.RefreshPod(bounded, d.pod)
	if err != nil {
		s.warnOfVolumes(ctx, d.pod, err)
	}
	return next
}

// result returns the Result for a call whose last decision is d.
func (d *decision) result(done *outcome) Result {
	r := Result{Plan: d.plan, Terminal: d.plan.TerminatesPod(), Failed: done.failed, NextTry: done.nextRefresh}
	if !r.Terminal {
		until := d.activeUntil(d.memory.reported.lastOr(nil))
		r.NextTry = memory.Earliest(memory.Earliest(r.NextTry, until), d.allocation.NextTry)
	}
	for _, f := range done.failed {
		r.NextTry = memory.Earliest(r.NextTry, f.nextSync())
	}
	return r
}

// ProbesChanged notes that one of a pod's probe results has changed. A SyncPod or SyncTerminatingPod in flight reports the status
// again, because it may take minutes. The next call decides by the results.
func (s *Syncer) ProbesChanged(pod types.UID) {
	if m := s.known.get(pod); m != nil {
		m.wake()
	}
}

// PodChanged notes that the definition of a pod, or the CPUs of its containers, have changed. A SyncPod in flight reads them again,
// the definition from Parts.Newest, because it may take minutes.
func (s *Syncer) PodChanged(pod types.UID) {
	if m := s.known.get(pod); m != nil {
		m.wake()
	}
}

// Observe records a pod status that another component has read. It may be called at any time, also
// while the pod is being synced: when the sync ends, the runtime may have lost the state in the status.
// Statuses for unknown pods and nil are ignored. The status is not modified, and may be older
// than others.
func (s *Syncer) Observe(ctx context.Context, status *runtime.PodStatus) {
	if status == nil {
		return
	}
	if m := s.known.get(status.UID); m != nil && m.observe(status) {
		m.Record(ctx)
	}
}
