package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/status"
)

var _ lifecycle.PodMemory = (*Pod)(nil)

// A Pod is one pod's memory under a lock.
type Pod struct {
	keeper *Keeper
	uid    types.UID
	saving sync.Mutex

	mu       sync.Mutex
	memory   memory.Pod
	failures memory.Failures[status.Problem]
	// problems are why containers do not run, by name.
	problems map[string]status.Problem
}

// Do calls f with the memory while no other call reads or changes it.
func (p *Pod) Do(f func(*memory.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.memory)
}

// Mark marks an instance, and reports whether it did not have the mark.
func (p *Pod) Mark(id string, what memory.Mark) (first bool) {
	p.Do(func(m *memory.Pod) { first = m.Instances.Mark(id, what) })
	return first
}

// Unmark removes a mark.
func (p *Pod) Unmark(id string, what memory.Mark) {
	p.Do(func(m *memory.Pod) { m.Instances.Unmark(id, what) })
}

// Marked reports whether an instance has a mark.
func (p *Pod) Marked(id string, what memory.Mark) (marked bool) {
	p.Do(func(m *memory.Pod) { marked = m.Instances.Marked(id, what) })
	return marked
}

// Observe records a status that was read at any time, also while other work on the pod is in flight: the runtime may lose
// what it shows.
func (p *Pod) Observe(ctx context.Context, seen *runtime.PodStatus) {
	p.Do(func(m *memory.Pod) { m.Observe(seen) })
	p.Record(ctx)
}

// See records the newest status of the pod, and returns it with the facts that the runtime has lost.
func (p *Pod) See(ctx context.Context, pod *v1.Pod, seen *runtime.PodStatus) (complete *runtime.PodStatus) {
	p.Do(func(m *memory.Pod) {
		if pod != nil {
			m.Containers.NoteRunOnce(pod)
		}
		seen = m.SetAsideCutStarts(seen)
		m.See(seen)
		complete = m.Instances.WithResources(m.Containers.WithStarts(m.Containers.WithSeen(seen)))
	})
	p.Record(ctx)
	return complete
}

// sandboxKey is the key of the sandbox's failures. No container has it.
var sandboxKey = memory.Key{}

// Facts returns the input of a decision from a status that See has returned. The caller adds further facts: why the
// pod must end or wait, and the addresses that a sandbox waits for.
func (p *Pod) Facts(pod *v1.Pod, complete *runtime.PodStatus, probes map[runtime.ContainerID]actions.ProbeResults, now time.Time) actions.Input {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, requested := actions.RestartAllRequested(pod, complete)
	in := actions.Input{
		Pod: pod, Status: complete, Probes: probes, StatusComplete: true, StartHolds: map[string]actions.Hold{},
		RestartAll:       p.memory.RestartsAll(requested, len(complete.Containers) == 0),
		Restarting:       p.memory.Containers.Restarting(complete),
		PostStartPending: p.memory.Instances.MarkedIn(complete, memory.PostStartPending),
	}
	if failed, until, wait := p.failures.Held(sandboxKey, now); wait {
		in.SandboxHold = actions.Hold{Reason: actions.FailureBackOff, Until: until, Message: failed.Message}
	}
	for c := range runtime.AllContainers(pod) {
		if failed, until, wait := p.failures.Held(memory.KeyOf(c), now); wait {
			in.StartHolds[c.Name] = actions.Hold{Reason: actions.FailureBackOff, Until: until, Message: failed.Message}
		} else if until, wait := p.crashWait(c, complete.Latest(c.Name), probes, now); wait {
			in.StartHolds[c.Name] = actions.Hold{Reason: actions.CrashBackOff, Until: until, Message: "back-off restarting failed container=" + c.Name}
		}
	}
	return in
}

// crashWait returns until when a container waits that has exited, or that is stopped because a probe failed.
func (p *Pod) crashWait(c *v1.Container, last *runtime.ContainerStatus, probes map[runtime.ContainerID]actions.ProbeResults, now time.Time) (until time.Time, wait bool) {
	if last == nil {
		return time.Time{}, false
	}
	ended := last.FinishedAt
	if last.State != runtime.ContainerExited {
		if r := probes[last.ID]; r.Liveness != actions.ProbeFailure && r.Startup != actions.ProbeFailure {
			return time.Time{}, false
		}
		ended = now
	}
	return p.memory.Crashes.Preview(c, last.ID, ended, now)
}

// Startable returns the steps of a plan that need not wait, and none for a container in unstopped. It counts the exits of
// the instances that they replace, and records why the others wait.
func (p *Pod) Startable(pod *v1.Pod, complete *runtime.PodStatus, steps []actions.StartStep, unstopped []*lifecycle.Uncleared, now time.Time) (free []actions.StartStep) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, step := range steps {
		c, last := step.Container.Spec(pod), complete.Latest(step.Container.Name)
		if c == nil {
			continue
		}
		if last != nil && last.State == runtime.ContainerExited {
			p.memory.Crashes.Crashed(c, last, now)
		}
		switch {
		case step.Hold.Reason == actions.CrashBackOff:
			p.problems[c.Name] = status.Problem{Reason: "CrashLoopBackOff", Message: step.Hold.Message}
		case step.Hold.Holds() || slices.ContainsFunc(unstopped, func(u *lifecycle.Uncleared) bool { return u.Container.Name == c.Name }) || p.memory.Containers.HasRunSince(complete, c.Name):
		default:
			free = append(free, step)
		}
	}
	return free
}

// Failed records why a container, or the sandbox if c is nil, does not run, and returns until when the next try waits. The
// next try does not wait if the agent gave up, or if the runtime was unavailable for once.
func (p *Pod) Failed(ctx context.Context, c *v1.Container, why status.Problem, err error, now time.Time) (until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := sandboxKey
	if c != nil {
		key = memory.KeyOf(c)
		p.problems[c.Name] = why
	}
	if ctx.Err() != nil || errors.Is(err, cri.ErrCanceled) || errors.Is(err, cri.ErrUnavailable) && p.failures.Excuse(key) {
		return time.Time{}
	}
	return p.failures.Failed(key, why, now)
}

// Succeeded forgets the failures of a container, or of the sandbox if c is nil.
func (p *Pod) Succeeded(c *v1.Container) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == nil {
		p.failures.Succeeded(sandboxKey)
		return
	}
	p.failures.Succeeded(memory.KeyOf(c))
	delete(p.problems, c.Name)
}

// Status returns the status of the API. The caller fills in the fields that the memory does not have: Pod, Previous,
// Terminal, Ended, Probes and Now, and the status as the runtime has it.
func (p *Pod) Status(in status.Input) v1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	in.StartsOver = !in.Terminal && p.memory.StartsOver(in.Pod, in.Status, false)
	in.Status, in.StartErrors = p.memory.Containers.WithSeen(p.memory.Instances.WithoutCutStarts(in.Status)), maps.Clone(p.problems)
	in.Evicted = p.memory.Evicted()
	previous := in.Previous
	if previous == nil {
		previous = &in.Pod.Status
	}
	return status.Merge(previous, status.GeneratePodStatus(in))
}
