package syncpod

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// EventDeadlineExceeded is also the reason in the pod's status, as in a kubelet.
const EventDeadlineExceeded = "DeadlineExceeded"

// Back-off keys. No container has such a name.
var (
	// sandboxKey is for a pod's sandbox, admitKey for rejections.
	sandboxKey = memory.Key{}
	admitKey   = memory.Key{Resources: "admission"}
)

// facts are what a decision depends on. They do not change after gather.
type facts struct {
	actions.Input
	// held are the failures behind the input's holds, and rejected is why the pod may not run, nil if it may.
	held     heldSteps
	rejected *Rejection
	// failed are the last reported container errors.
	failed  []*StepError
	learned learned
	// now is when the back-offs were read: those that begin with this decision begin then.
	now time.Time
}

// heldSteps are the failures that back off: of the whole pod, of its sandbox, and those that delay starts, resizes and
// moves of containers, by name.
type heldSteps struct {
	pod, sandbox             *StepError
	starts, resizes, cpusets map[string]*StepError
}

// learned are the facts to remember once the plan exists.
type learned struct {
	// expired is set if the pod has been active for too long, from now on.
	expired *apistatus.Problem
	restart memory.Restart
	// logs are the attempts that logs show for ephemeral containers.
	logs []scannedLogs
	// addressed means that the wait for the sandbox's address is over. unaddressed is the first failure of a sandbox that
	// has no address, and awaited that sandbox.
	addressed   bool
	unaddressed *StepError
	awaited     string
	// admitted means that the pod was admitted, refused is the failure if it was rejected and no back-off runs.
	admitted bool
	refused  *StepError
}

// scannedLogs are the attempts that a container's logs show.
type scannedLogs struct {
	container string
	last      uint32
	found     bool
}

// gather collects facts for the decision: the completed status, the pod's memory, its logs, and answers from the agent's
// parts. It changes nothing. For a pod that must end it asks neither logs nor Extensions.
func (s *Syncer) gather(ctx context.Context, p *openPod, status *runtime.PodStatus, inFlight []string) facts {
	last, probes := p.memory.reported.lastOr(nil), s.config.Parts.Probes.ProbeResults(p.pod.UID)
	known := p.memory.recall(p, status, reportsRestartOfAll(p.memory.reported.lastOr(&p.report.pod.Load().Status)))
	f := facts{failed: known.failed, learned: learned{restart: known.restart}}
	f.Input = actions.Input{
		Pod: p.pod, Status: status, Probes: probes, StatusComplete: true,
		RestartAll: known.restart.All(), Restarting: known.restarting, InFlight: inFlight,
	}
	reported := last != nil && runtime.IsTerminal(last.Phase)
	switch {
	case p.pod.DeletionTimestamp != nil:
		f.End = actions.PodDeleted
	case known.shown.evicted != nil:
		f.End = actions.PodEvicted
	case !reported && p.hasExpired(last, time.Now()):
		f.End = actions.PodEvicted
		f.learned.expired = &apistatus.Problem{Reason: EventDeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline"}
	case reported || p.report.showsEnd(known):
		f.End = actions.PodEnded
	}
	if f.End != actions.ReasonNone {
		return f
	}
	f.PostStartPending = known.postStartPending
	f.Started, f.learned.logs = s.startedBefore(p.pod, status, known)
	f.CPUSets = s.cpusets(p.pod)
	f.rejected = s.admit(ctx, p.pod)
	unready := s.unready(ctx, &f)
	f.now = time.Now() // the parts that were asked may have taken long
	delays := p.memory.delays(p.pod, status, probes, f.now)
	f.awaitAddress(ctx, p.memory, known.waits, delays)
	f.block(p.memory, unready, delays)
	f.addHolds(delays)
	return f
}

// recalled is a pod's memory, as a decision needs it.
type recalled struct {
	shown                        shownPod
	restart                      memory.Restart
	restarting, postStartPending []runtime.ContainerID
	failed                       []*StepError
	// scanned are the ephemeral containers whose logs were read, started those that have, or may have, started.
	scanned, started map[string]bool
	// waits means that the agent waits, or has waited, for the latest sandbox's address.
	waits bool
}

// delays are the back-offs that have not ended at some time.
type delays struct {
	// nothingFailed means that no step has failed and no container has exited.
	nothingFailed bool
	// sandbox, replaced and admission are the failures that delay the sandbox, its replacement for its present fault, and the
	// admission; starts, resizes and cpusets those that delay containers, and crashes when back-offs after exits end, by name.
	sandbox, replaced, admission *StepError
	starts, resizes, cpusets     map[string]*StepError
	crashes                      map[string]time.Time
}

// recall returns what a decision needs from the memory of a pod with a status. It changes nothing.
func (m *podMemory) recall(p *openPod, status *runtime.PodStatus, restartReported bool) recalled {
	_, requested := actions.RestartAllRequested(p.pod, status)
	removed := !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
		ref, found := actions.FindContainer(p.pod, c.Name)
		return found && ref.Kind != actions.EphemeralContainer
	})
	latest := status.LatestSandbox()

	m.mu.Lock()
	defer m.mu.Unlock()
	k := recalled{
		restart: m.pod.Restart().After(requested, removed), restarting: m.pod.Containers.Restarting(status),
		postStartPending: m.pod.Instances.MarkedIn(status, memory.PostStartPending), failed: m.failed, waits: latest != nil && m.pod.Sandbox.Waits(latest.ID),
	}
	k.shown, _ = m.shown(p.report.pod.Load(), status, k.restart, false, restartReported)
	for i := range p.pod.Spec.EphemeralContainers {
		name := p.pod.Spec.EphemeralContainers[i].Name
		put(&k.scanned, name, m.pod.Containers.LogsScanned(name))
		put(&k.started, name, m.pod.Containers.EverStarted(name))
	}
	return k
}

// delays returns the unfinished back-offs for a pod with a status. It changes nothing.
func (m *podMemory) delays(pod *v1.Pod, status *runtime.PodStatus, probes map[runtime.ContainerID]actions.ProbeResults, now time.Time) delays {
	fault := actions.SandboxFault(pod, status)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures.IsEmpty() && m.pod.Crashes.IsEmpty() {
		return delays{nothingFailed: true}
	}
	d := delays{
		sandbox: m.heldBy(sandboxKey, now), admission: m.heldBy(admitKey, now),
		starts: map[string]*StepError{}, resizes: map[string]*StepError{}, cpusets: map[string]*StepError{}, crashes: map[string]time.Time{},
	}
	if fault != actions.ReasonNone {
		d.replaced = m.heldBy(replacedKey(fault), now)
	}
	for spec := range runtime.AllContainers(pod) {
		if held := m.heldBy(resizeKey(spec), now); held != nil {
			d.resizes[spec.Name] = held
		}
		if held := m.heldBy(cpusetKey(spec.Name), now); held != nil {
			d.cpusets[spec.Name] = held
		}
		if held := m.heldBy(memory.KeyOf(spec), now); held != nil {
			d.starts[spec.Name] = held
		} else if until, wait := m.crashWait(spec, status.Latest(spec.Name), probes, now); wait {
			d.crashes[spec.Name] = until
		}
	}
	return d
}

// crashWait returns until when a container must wait after its exit, or after the stop that follows a failed probe now.
func (m *podMemory) crashWait(spec *v1.Container, last *runtime.ContainerStatus, probes map[runtime.ContainerID]actions.ProbeResults, now time.Time) (until time.Time, wait bool) {
	if last == nil {
		return time.Time{}, false
	}
	ended := last.FinishedAt
	if last.State != runtime.ContainerExited {
		if p := probes[last.ID]; p.Liveness != actions.ProbeFailure && p.Startup != actions.ProbeFailure {
			return time.Time{}, false
		}
		ended = now
	}
	return m.pod.Crashes.Preview(spec, last.ID, ended, now)
}

// hasExpired reports whether the pod has been active for longer than its activeDeadlineSeconds, whatever its containers do.
func (p *openPod) hasExpired(last *v1.PodStatus, now time.Time) bool {
	until := p.activeUntil(last)
	return !until.IsZero() && !now.Before(until)
}

// activeUntil returns when the pod's active deadline ends, zero if it has none. It counts from the
// last reported start time, which outlives the agent.
func (p *openPod) activeUntil(last *v1.PodStatus) time.Time {
	bound := p.pod.Spec.ActiveDeadlineSeconds
	if bound == nil {
		return time.Time{}
	}
	start := p.pod.Status.StartTime
	if last != nil && !last.StartTime.IsZero() { // otherwise this agent has not reported a status yet
		start = last.StartTime
	}
	if start.IsZero() {
		return time.Time{}
	}
	return start.Add(time.Duration(*bound) * time.Second)
}

// startedBefore returns the ephemeral containers that have been started and that the runtime
// does not have. Their logs are read once. Unreadable logs show nothing here; they fail the start.
func (s *Syncer) startedBefore(pod *v1.Pod, status *runtime.PodStatus, known recalled) (names []string, read []scannedLogs) {
	for i := range pod.Spec.EphemeralContainers {
		name := pod.Spec.EphemeralContainers[i].Name
		if status.Latest(name) != nil {
			continue
		}
		started := known.started[name]
		if !known.scanned[name] {
			logs, err := s.scanLogs(pod, name)
			if err != nil {
				continue
			}
			started, read = started || logs.found, append(read, logs)
		}
		if started {
			names = append(names, name)
		}
	}
	return names, read
}

// scanLogs reads which of a container's attempts have logs.
func (s *Syncer) scanLogs(pod *v1.Pod, name string) (scannedLogs, error) {
	dir, err := sandbox.BuildPodLogsDirectory(s.config.Node.LogsRoot, pod)
	if err != nil {
		return scannedLogs{}, err
	}
	last, found, err := s.config.Parts.Logs.LastAttempt(dir, name)
	return scannedLogs{name, last, found}, err
}

// errNoAddress delays a pod whose network is not ready. The address may still appear, so the sandbox is not replaced
// before the wait ends (kubernetes #48510).
var errNoAddress = errors.New("the sandbox has no address yet")

// awaitAddress finds why the pod keeps a sandbox without an address. Each sandbox has as long as one back-off, because its
// network may still be set up, or the runtime may omit the address just once.
func (f *facts) awaitAddress(ctx context.Context, m *podMemory, waits bool, d delays) {
	if actions.SandboxFault(f.Pod, f.Status) != actions.SandboxNoAddress {
		f.learned.addressed = waits
		return
	}
	switch {
	case d.sandbox != nil && errors.Is(d.sandbox, errNoAddress):
		f.held.sandbox = d.sandbox
	case waits:
		return // it has lacked one for too long
	default:
		f.learned.awaited = f.Status.LatestSandbox().ID
		f.learned.unaddressed = &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: errNoAddress}
		var until time.Time
		if ctx.Err() == nil { // otherwise no back-off begins
			until = m.untilRetry(sandboxKey, f.now)
		}
		f.held.sandbox = f.learned.unaddressed.waiting(until)
	}
	f.AddressWait = f.held.sandbox.hold(actions.AddressPending)
}

// block holds the whole pod if it was not admitted, or if it needs its own network and the node has none for a new
// sandbox. Admission is repeated with back-off, and results in between are ignored.
func (f *facts) block(m *podMemory, unready error, d delays) {
	switch {
	case f.rejected != nil:
		failed := &StepError{Step: stepAdmit, Reason: Reason(f.rejected.Reason), Err: errors.New(f.rejected.Message)}
		if d.admission != nil {
			f.held.pod = failed.waiting(d.admission.NotBefore)
		} else {
			f.learned.refused, f.held.pod = failed, failed.waiting(m.untilRetry(admitKey, f.now))
		}
		f.Blocked = f.held.pod.hold(actions.PodNotAdmitted)
		return
	case unready != nil:
		f.held.pod = &StepError{Step: stepNetwork, Reason: errNetworkNotReady, Err: unready}
		f.Blocked = f.held.pod.hold(actions.NetworkNotReady)
	}
	f.learned.admitted = true
}

// unready returns why the node has no network for an admitted pod's new sandbox, nil if it has one, or the pod needs none.
func (s *Syncer) unready(ctx context.Context, f *facts) error {
	if f.rejected != nil || s.config.Extensions.Network == nil || f.Pod.Spec.HostNetwork {
		return nil
	}
	return s.config.Extensions.Network.NetworkReady(ctx)
}

// admit returns why the pod may not run, nil if it may.
func (s *Syncer) admit(ctx context.Context, pod *v1.Pod) *Rejection {
	for _, check := range s.config.Extensions.Admit {
		if refused := check.AdmitPod(ctx, pod); refused != nil {
			return refused
		}
	}
	return nil
}

// problem returns the rejection as the status reports it.
func (r *Rejection) problem() *apistatus.Problem {
	if r == nil {
		return nil
	}
	return &apistatus.Problem{Reason: apistatus.Reason(r.Reason), Message: r.Message}
}

// hold converts a failure to the form that a decision takes.
func (e *StepError) hold(why actions.Reason) actions.Hold {
	return actions.Hold{Reason: why, Until: e.NotBefore, Message: e.Err.Error()}
}

// addHolds adds the back-offs that have not ended.
func (f *facts) addHolds(d delays) {
	if d.nothingFailed && f.learned.unaddressed == nil && f.learned.refused == nil {
		return
	}
	if f.held.sandbox == nil {
		held := d.replaced
		if d.sandbox != nil && !f.learned.addressed {
			held = d.sandbox
		}
		if held != nil {
			f.held.sandbox, f.SandboxHold = held, held.hold(actions.FailureBackOff)
		}
	}
	f.held.starts, f.held.resizes, f.held.cpusets = d.starts, d.resizes, d.cpusets
	f.StartHolds, f.ResizeHolds, f.CPUSetHolds = map[string]actions.Hold{}, map[string]actions.Hold{}, map[string]actions.Hold{}
	for name, held := range d.resizes {
		f.ResizeHolds[name] = held.hold(actions.FailureBackOff)
	}
	for name, held := range d.cpusets {
		f.CPUSetHolds[name] = held.hold(actions.FailureBackOff)
	}
	for name, held := range d.starts {
		f.StartHolds[name] = held.hold(actions.FailureBackOff)
	}
	for name, until := range d.crashes {
		f.StartHolds[name] = actions.Hold{
			Reason: actions.CrashBackOff, Until: until,
			Message: "Back-off restarting failed container " + name + " in pod " + podref.Describe(f.Pod),
		}
	}
}

// decide computes the plan.
func (s *Syncer) decide(in actions.Input) actions.Plan {
	plan := actions.Compute(in)
	if s.config.Decided != nil {
		s.config.Decided(in, plan)
	}
	return plan
}

// learn remembers what a decision's facts have shown, and records events about it.
func (s *Syncer) learn(ctx context.Context, p *openPod, f *facts) {
	p.memory.learn(ctx, f)
	if f.learned.expired != nil {
		s.eventf(podref.Pod(p.pod), v1.EventTypeNormal, EventDeadlineExceeded, "%s", f.learned.expired.Message)
	}
	if f.learned.unaddressed != nil {
		s.warnNoAddress(ctx, p.pod)
	}
}

// untilRetry returns when a step would be tried again if it failed now.
func (m *podMemory) untilRetry(key memory.Key, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failures.Preview(key, now)
}

// learn writes what a decision's facts have shown.
func (m *podMemory) learn(ctx context.Context, f *facts) {
	decided := f.Input
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decided = &decided
	m.pod.SetRestart(f.learned.restart)
	m.pod.Evict(f.learned.expired, false)
	for _, logs := range f.learned.logs {
		m.pod.Containers.Scanned(logs.container, logs.last, logs.found)
	}
	if f.learned.addressed {
		m.pod.Sandbox.EndWait(f.Status)
		m.failures.Succeeded(sandboxKey)
	}
	if failed := f.learned.unaddressed; failed != nil {
		m.pod.Sandbox.BeginWait(f.learned.awaited)
		if ctx.Err() == nil {
			failed.NotBefore = m.failures.Failed(sandboxKey, failed, f.now)
		}
	}
	if f.learned.admitted {
		m.failures.Succeeded(admitKey)
	}
	if failed := f.learned.refused; failed != nil {
		m.failures.Failed(admitKey, failed, f.now)
	}
}

func (s *Syncer) warnNoAddress(ctx context.Context, pod *v1.Pod) {
	s.warn(ctx, pod, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %v", errNoAddress)
}
