package syncpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	podmemory "github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/resize"
)

// Result is the result of a SyncPod.
type Result struct {
	// Plan is the plan of the sync.
	Plan actions.Plan
	// Terminal means that the pod has finished or is deleted: nothing was done, and the caller must
	// call SyncTerminatingPod.
	Terminal bool
	// Failed are the errors that keep containers from running, in the order of the plan: failures
	// of this call, and steps that wait after earlier ones.
	Failed []*StepError
	// NextTry is the time of the next sync: when the first of Failed may be retried or must be
	// reported as backing off, or when the pod's volumes must be checked, whichever is first. Zero
	// if none is needed.
	NextTry time.Time
}

// SyncPod brings a pod one step closer to its definition, in the order of the package's documentation. status is the
// pod's status in the runtime, read after the last SyncPod of the pod has returned. If it is nil, or was not read after
// the last call that changed the runtime (PodStatus.ObservedAt), SyncPod reads it.
//
// The error joins all failures. Its methods RetryAt and Temporary determine when to call SyncPod again. A step that
// waits for its back-off is not an error; Result.NextTry is the time of the next call. When ctx ends, all calls in
// flight end, too, and SyncPod returns; the next SyncPod continues from the state that the runtime reports.
func (s *Syncer) SyncPod(ctx context.Context, pod *v1.Pod, status *runtime.PodStatus) (Result, error) {
	if err := validate(pod); err != nil {
		return Result{}, err
	}
	m := s.remember(ctx, pod.UID)
	m.do(func(p *podmemory.Pod) { p.Containers.NoteRunOnce(pod) })
	w := &work{observedPod: observedPod{notices: s.notices, syncer: s, pod: pod, memory: m}, report: s.newReport(pod, m)}
	err := allocating{w}.allocate(ctx)
	if err == nil {
		w, err = syncing{w}.run(ctx, status)
	}
	if !w.plan.NoOp() {
		m.setChanged()
	}
	return syncing{w}.result(), errors.Join(err, w.report.wait(ctx))
}

func validate(pod *v1.Pod) error {
	if err := (actions.Input{Pod: pod}).Validate(); err != nil {
		return fmt.Errorf("syncpod: %w", err)
	}
	if pod.UID == "" {
		return fmt.Errorf("syncpod: pod %s: metadata.uid is empty", podref.Name(pod))
	}
	if n := len(pod.UID); n > validation.LabelValueMaxLength { // it is the value of a label
		return fmt.Errorf("syncpod: pod %s: metadata.uid has %d characters, want at most %d", podref.Name(pod), n, validation.LabelValueMaxLength)
	}
	return nil
}

// observedPod is a pod with its observed state.
type observedPod struct {
	notices
	syncer *Syncer
	// pod is the pod with its allocated resources.
	pod    *v1.Pod
	memory *podMemory
	// status is the runtime's status of the pod, completed from memory.
	status *runtime.PodStatus
	// memoryInUse is why the memory limit of the whole pod was not lowered, nil if it was.
	memoryInUse *StepError
}

// record stores the changed facts about the pod for the next agent.
func (o *observedPod) record(ctx context.Context) { o.syncer.record(ctx, o.memory) }

// outcome has the errors that keep containers of a pod from running. It has no lock: containers that start
// concurrently return their errors.
type outcome struct {
	failed []*StepError
	// unstopped are the containers, by name, that must not be started because an
	// instance of theirs could not be stopped.
	unstopped map[string]bool
}

// work is the shared state of the steps of one SyncPod. Each step is a type of its own, so that a method has access to
// few others. A step may convert itself to another one to use it.
type work struct {
	observedPod
	outcome
	report *report
	plan   actions.Plan
	over   bool
	// allocated is the answer of the Allocations, and resized are the instances that have received it
	// since then.
	allocated resize.Answer
	resized   map[runtime.ContainerID]bool
	// rejected is why the pod may not run, nil if it may.
	rejected *Rejection
	held     heldSteps
	sandbox  inUse
	// started are the containers, by name, that were started in this work.
	started map[string]bool
	// nextRefresh is when the pod's volumes must be refreshed, zero if they need not be.
	nextRefresh time.Time
	flights     *flights
}

// next returns the state for another decision of the same SyncPod.
func (w *work) next() *work {
	return &work{
		observedPod: observedPod{notices: w.notices, syncer: w.syncer, pod: w.pod, memory: w.memory},
		report:      w.report, allocated: w.allocated, resized: w.resized, flights: w.flights,
	}
}

// syncing runs the steps of a SyncPod.
type syncing struct{ *work }

// run runs the steps in the order of the package's documentation, and again while images are being pulled and something
// changes. It returns the state after the last decision.
func (w syncing) run(ctx context.Context, status *runtime.PodStatus) (*work, error) {
	w.flights = newFlights(ctx)
	defer func() { w.flights.end() }()
	endReports := func() {}
	defer func() { endReports() }()
	for first := true; ; first = false {
		if err := (inspecting{&w.observedPod}).look(ctx, status); err != nil {
			return w.work, err
		}
		if !first { // containers that the call has started are probed
			w.config.Parts.Probes.Observe(w.pod, w.report.handling.without(w.status), false)
		}
		gathering(w).expire()
		in := gathering(w).gather(ctx)
		w.plan = w.decide(in)
		if w.flights.any() && startsOver(w.plan) {
			w.flights.end()
			w.flights, in.InFlight = newFlights(ctx), nil
			w.plan = w.decide(in)
		}
		if !w.plan.NoOp() {
			w.config.Observer.PlanMade(w.pod, w.plan)
		}
		before := w.memory.lastFailed()
		w.reportStatus(ctx, before)
		if first && !w.plan.NoOp() && !w.plan.TerminatesPod() {
			endReports = w.report.beside(ctx, besideDelay, true)
		}
		w.act(ctx)
		w.conclude(ctx, before)
		w.refresh(ctx)
		if !w.flights.any() {
			return w.work, w.errors()
		}
		again := starting(w).await(ctx)
		w.conclude(ctx, before)
		w.memory.setChanged() // by a step of an earlier plan, perhaps
		if !again {
			return w.work, w.errors()
		}
		w, status = syncing{w.next()}, w.memory.observedAfter(&runtime.PodStatus{ObservedAt: time.Unix(0, 1)})
	}
}

// startsOver reports whether a plan stops the pod, or starts it over: no start of an earlier plan may be completed then.
func startsOver(p actions.Plan) bool { return p.KillPod || p.Sandbox.Create || len(p.Reset) > 0 }

// conclude records and reports the failures of the steps so far.
func (w syncing) conclude(ctx context.Context, before []*StepError) {
	kept, started := w.unresolved(before)
	w.memory.setFailed(append(kept, w.failed...))
	if len(before)+len(w.failed)+len(w.plan.Resize) > 0 {
		w.reportStatus(ctx, slices.Concat(kept, started, w.failed))
	}
}

// unresolved returns the earlier failures to start containers that have not failed again:
// those of containers that were not started in this work, and those of containers that were,
// but whose status is from before. A container waits for the same reason until its start has
// succeeded and a status shows it, so that its reported state does not change in between.
func (w syncing) unresolved(before []*StepError) (kept, started []*StepError) {
	for _, f := range before {
		name := f.Container.Name
		again := slices.ContainsFunc(w.failed, func(now *StepError) bool { return now.Container.Name == name })
		c := w.status.Latest(name)
		switch {
		case name == "" || again || c != nil && c.State == runtime.ContainerRunning:
		case w.started[name]:
			started = append(started, f)
		default:
			kept = append(kept, f)
		}
	}
	return kept, started
}

// act carries out the plan as far as possible.
func (w syncing) act(ctx context.Context) {
	if w.over = w.plan.TerminatesPod(); w.over {
		return
	}
	if w.memory.callOff(ctx) {
		w.record(ctx)
	}
	w.noteRestarts(ctx)
	if w.plan.Hold.Holds() {
		w.wait(ctx)
		return
	}
	w.carryOut(ctx)
}

// noteRestarts records which instances are stopped in order to start their containers again, before they are stopped:
// the start may fail or wait, and the exit code does not show that it is due (kubernetes #109537).
func (w syncing) noteRestarts(ctx context.Context) {
	restarts := append(w.plan.Restarts(w.pod, w.status), w.flights.restarting()...)
	if ask(w.memory, func(p *podmemory.Pod) bool { return p.Containers.NoteRestarts(restarts, w.status) }) {
		w.record(ctx)
	}
}

// inspecting reads the status of a pod.
type inspecting struct{ *observedPod }

// look uses the given status, or reads one. It also removes sandboxes that appeared late, beside the one in use:
// otherwise the pod would start over in one of them.
func (o inspecting) look(ctx context.Context, status *runtime.PodStatus) error {
	if status != nil && o.config.Parts.Sandboxes.Unresolved(o.pod.UID) {
		if err := o.config.Parts.Sandboxes.Resolve(ctx, o.pod.UID, o.sandboxInUse(status)); err != nil {
			err = o.memory.secrets.redactError(err)
			o.reportUnseen(ctx, err)
			return fmt.Errorf("syncpod: pod %s: %w", podref.Name(o.pod), err)
		}
		status = nil
	}
	if status == nil || o.memory.isStale(status) {
		var err error
		if status, err = o.syncer.read(ctx, o.pod.UID, nil); err != nil {
			err = o.memory.secrets.redactError(err)
			o.reportUnseen(ctx, err)
			return fmt.Errorf("syncpod: pod %s: %w", podref.Name(o.pod), err)
		}
	}
	status = o.syncer.withMessages(o.pod, o.memory, ask(o.memory, func(p *podmemory.Pod) *runtime.PodStatus { return p.SetAsideCutStarts(status) }))
	o.memory.do(func(p *podmemory.Pod) { p.See(status) })
	o.syncer.postStopExited(ctx, o.pod, o.memory, status)
	o.syncer.releaseMounts(o.memory, startIsOver(status))
	o.record(ctx)
	o.status = o.memory.completed(status)
	return nil
}

func (o inspecting) sandboxInUse(status *runtime.PodStatus) string {
	return ask(o.memory, func(p *podmemory.Pod) string { return p.Sandbox.InUse(status) })
}

func (o inspecting) reportUnseen(ctx context.Context, err error) {
	o.warn(ctx, EventFailedSync, "error determining status: %v", err)
}

// read reads the status of a pod.
func (s *Syncer) read(ctx context.Context, pod types.UID, last *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := s.config.Parts.Statuses.PodStatus(ctx, pod, last)
	if err == nil && status == nil {
		err = errors.New("the reader of statuses returned neither a status nor an error")
	}
	return status, err
}

// reportStatus reports the status of the pod.
func (w *work) reportStatus(ctx context.Context, failed []*StepError) {
	conditions := allocating{w}.resizeConditions(failed)
	allocating{w}.reportResize(conditions)
	o := outlook{failed: failed, conditions: conditions}
	if w.plan.Hold.Reason == actions.PodNotAdmitted {
		o.blocked = w.rejected.problem()
	}
	w.report.update(ctx, w.status, o)
}

func (c *Config) probeResults(uid types.UID) map[runtime.ContainerID]actions.ProbeResults {
	return c.Parts.Probes.ProbeResults(uid)
}

func (w syncing) result() Result {
	r := Result{Plan: w.plan, Terminal: w.over, Failed: w.failed, NextTry: w.nextRefresh}
	if !w.over {
		r.NextTry = podmemory.Earliest(podmemory.Earliest(r.NextTry, w.activeUntil()), w.allocated.NextTry)
	}
	for _, f := range w.failed {
		r.NextTry = podmemory.Earliest(r.NextTry, f.nextLook())
	}
	return r
}

// ProbesChanged notes that a result of a pod's probes has changed. A SyncPod or SyncTerminatingPod in flight reports the status
// again, because it may take minutes. The next call decides by the results.
func (s *Syncer) ProbesChanged(pod types.UID) {
	if m := s.known.get(pod); m != nil {
		m.wake()
	}
}

// Observe records a pod status that another component has read. It may be called at any time, also
// while the pod is being synced: when the sync ends, the runtime may have lost the state in the status.
// Statuses of unknown pods and nil are ignored. The status is not modified, and may be older
// than others.
func (s *Syncer) Observe(ctx context.Context, status *runtime.PodStatus) {
	if status == nil {
		return
	}
	if m := s.known.get(status.UID); m != nil && m.observe(status) {
		s.record(ctx, m)
	}
}
