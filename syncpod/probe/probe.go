package probe

import (
	"cmp"
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/jitter"
	"github.com/podsync/podsync/runtime"
)

// old is the age of a container that counts as running since before the agent's start.
const old = time.Minute

// pod is the state of a pod with probes. Manager.mu guards it.
type pod struct {
	spec   *v1.Pod
	ip     string
	probes map[key]*probe
}

// key identifies a pod probe: another instance has other probes.
type key struct {
	id   runtime.ContainerID
	kind Kind
}

// probe is one probe of one instance. Manager.mu guards everything that is not set at its creation.
type probe struct {
	pod       *pod
	key       key
	container *v1.Container
	spec      *v1.Probe
	startedAt time.Time

	result actions.ProbeResult
	// row is the number of consecutive successes, if positive, or failures, if negative.
	row   int32
	timer *time.Timer
	// cancel ends the check in flight, nil if none is.
	cancel context.CancelFunc
}

// wantedProbes returns the probes that a pod's running containers declare.
func wantedProbes(p *pod, status *runtime.PodStatus, ending bool) map[key]*probe {
	wanted := map[key]*probe{}
	add := func(c *v1.Container, s *runtime.ContainerStatus, kind Kind, spec *v1.Probe) {
		if spec != nil && (!ending || kind == Readiness) {
			k := key{s.ID, kind}
			wanted[k] = &probe{pod: p, key: k, container: c, spec: spec, startedAt: s.StartedAt}
			if kind == Startup && reportedStarted(p.spec, c.Name, s.ID) {
				wanted[k].result = actions.ProbeSuccess
			}
		}
	}
	for _, containers := range [][]v1.Container{p.spec.Spec.InitContainers, p.spec.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if s := status.Latest(c.Name); s != nil && s.State == runtime.ContainerRunning {
				add(c, s, Startup, c.StartupProbe)
				add(c, s, Liveness, c.LivenessProbe)
				add(c, s, Readiness, c.ReadinessProbe)
			}
		}
	}
	return wanted
}

// reportedStarted reports whether the pod's status has started=true for this container ID, from an earlier agent. Its startup
// probe is not repeated: it may check a condition that holds only during a start, and its failure would restart a container that works.
func reportedStarted(pod *v1.Pod, name string, id runtime.ContainerID) bool {
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if s := &statuses[i]; s.Name == name {
				return s.ContainerID == id.String() && s.Started != nil && *s.Started
			}
		}
	}
	return false
}

// first returns how long the first check waits.
func (p *probe) first() time.Duration {
	if wait := p.untilDue(); wait > 0 {
		return wait
	}
	if time.Since(p.startedAt) > old {
		return jitter.UpTo(p.period(), p.key.id.String(), time.Now())
	}
	return 0
}

// untilDue returns the time until the first check. A start in the future means that the clock was
// set back (kubernetes #134153): it does not prolong the wait.
func (p *probe) untilDue() time.Duration {
	delay := time.Duration(p.spec.InitialDelaySeconds) * time.Second
	return max(0, min(time.Until(p.startedAt.Add(delay)), delay))
}

func (p *probe) period() time.Duration { return seconds(p.spec.PeriodSeconds, 10) }

func timeoutOf(spec *v1.Probe) time.Duration { return seconds(spec.TimeoutSeconds, 1) }

func seconds(n, def int32) time.Duration {
	if n <= 0 {
		n = def
	}
	return time.Duration(n) * time.Second
}

// ready reports whether the probe may run. A startup probe runs until it has a result. The other probes run after
// it has succeeded, and a liveness probe not after it has failed.
func (p *probe) ready() bool {
	switch p.key.kind {
	case Startup:
		return p.result == actions.ProbePending
	case Liveness:
		if p.result == actions.ProbeFailure {
			return false
		}
	}
	startup := p.pod.probes[key{p.key.id, Startup}]
	return startup == nil || startup.result == actions.ProbeSuccess
}

// rest stops the timer and the check in flight.
func (p *probe) rest() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.cancel != nil {
		p.cancel()
	}
}

// count records a check's outcome, and reports whether the result has changed.
func (p *probe) count(o outcome) bool {
	was := p.result
	switch {
	case o.unknown:
	case o.failure == "":
		p.row = max(p.row, 0) + 1
		if p.row >= max(p.spec.SuccessThreshold, 1) {
			p.result = actions.ProbeSuccess
		}
	default:
		p.row = min(p.row, 0) - 1
		if -p.row >= failureThreshold(p.spec) {
			p.result = actions.ProbeFailure
		}
	}
	return p.result != was
}

func failureThreshold(spec *v1.Probe) int32 {
	if spec.FailureThreshold <= 0 {
		return 3
	}
	return spec.FailureThreshold
}

// schedule checks a probe after wait, if it may run. It requires mu to be held.
func (p *Manager) schedule(probe *probe, wait time.Duration) {
	if p.ctx != nil && probe.ready() {
		probe.timer = time.AfterFunc(wait, func() { p.check(probe) })
	}
}

// check runs the probe once, and schedules its next check.
func (p *Manager) check(probe *probe) {
	ctx, spec, target := p.start(probe)
	if ctx == nil {
		return
	}
	defer p.running.Done()
	if spec.Spec.HostNetwork { // the node's address may change at any time
		target.PodIP = cmp.Or(p.config.HostIP(), "127.0.0.1")
	}
	began := time.Now()
	o := p.checker.outcome(ctx, target)
	counts, changed := p.finish(probe, ctx, o, time.Since(began))
	if changed != nil {
		changed(spec.UID)
	}
	if counts {
		p.notify(probe, spec, o)
	}
}

// notify passes a failure or a warning to the callbacks.
func (p *Manager) notify(probe *probe, spec *v1.Pod, o outcome) {
	container, kind := probe.container.Name, probe.key.kind
	switch {
	case o.failure != "":
		p.config.Unhealthy(spec, container, kind, string(kind)+" probe failed: "+o.failure)
	case o.errored != "":
		p.config.Unhealthy(spec, container, kind, string(kind)+" probe errored and resulted in unknown state: "+o.errored)
	case o.warning != "":
		p.config.Warning(spec, container, kind, string(kind)+" probe warning: "+o.warning)
	}
}

// start returns a check's request. It returns a nil context if the probe must not run.
func (p *Manager) start(probe *probe) (context.Context, *v1.Pod, Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if probe.timer == nil {
		return nil, nil, Request{}
	}
	probe.timer = nil
	p.running.Add(1)
	var ctx context.Context
	ctx, probe.cancel = context.WithCancel(p.ctx)
	return ctx, probe.pod.spec, Request{
		Probe: probe.spec, PodIP: probe.pod.ip, Container: probe.container.Name, ContainerID: probe.key.id.ID, Ports: probe.container.Ports,
	}
}

// finish records the outcome. A cancelled check's outcome does not count. If the outcome has changed the result,
// finish returns the callback for changes.
func (p *Manager) finish(probe *probe, ctx context.Context, o outcome, took time.Duration) (counts bool, changed func(uid types.UID)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := ctx.Err() != nil
	probe.cancel()
	probe.cancel = nil
	if ended {
		return false, nil
	}
	p.config.Observer.Checked(Check{Pod: probe.pod.spec, Container: probe.container.Name, Kind: probe.key.kind, Outcome: o.result(), Took: took})
	if probe.count(o) {
		changed = p.changed
	}
	p.schedule(probe, probe.period())
	if changed != nil && probe.key.kind == Startup {
		p.scheduleOthers(probe)
	}
	return true, changed
}

// scheduleOthers starts the probes that waited for a startup probe. It must be called with mu held.
func (p *Manager) scheduleOthers(startup *probe) {
	for _, kind := range []Kind{Liveness, Readiness} {
		if other := startup.pod.probes[key{startup.key.id, kind}]; other != nil {
			p.schedule(other, other.untilDue())
		}
	}
}
