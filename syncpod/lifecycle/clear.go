package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/memory"
)

// PodMemory is a Memory for a whole pod.
type PodMemory interface {
	Memory
	// Do calls f with the pod's memory while no other call reads or changes it. The next Record persists the changes.
	Do(f func(*memory.Pod))
}

// A Clearing is what a plan stops and removes while the pod keeps running.
type Clearing struct {
	// Pod is the pod, Status its status from which the plan was made, and Plan the plan. Required.
	Pod    *v1.Pod
	Status *runtime.PodStatus
	Plan   actions.Plan
	// Memory has stop deadlines and the instances' marks. Default: none, so a repeated stop begins anew.
	Memory PodMemory
	// IPs are the pod's addresses as the runtime reports them, the primary first.
	IPs []string
	// InFlight are instances that other calls to Clear are stopping, whose deadlines stay. Nil means none.
	InFlight []runtime.ContainerID
}

// Step is a plan's step that stops or removes an instance.
type Step string

// The steps.
const (
	StepKill  Step = "kill"
	StepClear Step = "clear"
	StepReset Step = "reset"
)

// Uncleared is an instance that could not be stopped or removed. A container with this name must not be started.
type Uncleared struct {
	Container actions.ContainerRef
	Step      Step
	Err       error
}

// Error returns the step's error.
func (u *Uncleared) Error() string { return fmt.Sprintf("%s: %v", u.Step, u.Err) }

// Unwrap returns the step's error.
func (u *Uncleared) Unwrap() error { return u.Err }

// removal stops or removes one instance.
type removal struct {
	ref     actions.ContainerRef
	id      runtime.ContainerID
	step    Step
	why     actions.Reason
	restart bool
}

// removals returns the stops and removals of the plan: in last those that must come last, in first all others.
func removals(plan actions.Plan) (first, last []removal) {
	for _, k := range plan.Kill {
		first = append(first, removal{ref: k.Container, id: k.ID, step: StepKill, why: k.Reason, restart: k.Restart})
	}
	for _, c := range plan.Clear {
		first = append(first, removal{ref: c.Container, id: c.ID, step: StepClear, why: c.Reason})
	}
	for _, r := range plan.Reset {
		step := removal{ref: r.Container, id: r.ID, step: StepReset}
		if r.Last {
			last = append(last, step)
		} else {
			first = append(first, step)
		}
	}
	return first, last
}

// Clear stops and removes the instances that a plan names in Kill, Clear and Reset, all at once (kubernetes #102411), and
// those that must come last when all others have succeeded. It returns the failures in the plan's order. Each stop's
// deadline is in the memory, so that a repeated stop does not begin its grace period again.
func (s *Stopper) Clear(ctx context.Context, c Clearing) (failed []*Uncleared) {
	if c.Memory == nil {
		c.Memory = new(ProcessMemory)
	}
	if c.Status == nil { // the plan names nothing that the runtime has
		return nil
	}
	first, last := removals(c.Plan)
	c.Memory.Do(func(p *memory.Pod) { // for stops that have failed and are no longer in the plan
		p.Kills.End(func(id string) bool {
			return slices.ContainsFunc(slices.Concat(first, last), func(r removal) bool { return r.id.ID == id }) ||
				slices.ContainsFunc(c.InFlight, func(other runtime.ContainerID) bool { return other.ID == id })
		})
	})
	failed = s.removeAll(ctx, c, first)
	if len(failed) == 0 {
		failed = s.removeAll(ctx, c, last)
	}
	return failed
}

func (s *Stopper) removeAll(ctx context.Context, c Clearing, all []removal) (failed []*Uncleared) {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, r := range all {
		group.Go(func() { errs[i] = s.removeOne(ctx, c, r) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			failed = append(failed, &Uncleared{Container: all[i].ref, Step: all[i].step, Err: err})
		}
	}
	return failed
}

func (s *Stopper) removeOne(ctx context.Context, c Clearing, r removal) error {
	at := slices.IndexFunc(c.Status.Containers, func(seen runtime.ContainerStatus) bool { return seen.ID == r.id })
	if at < 0 {
		return nil
	}
	seen := &c.Status.Containers[at]
	if r.step == StepClear && seen.State == runtime.ContainerCreated && c.Memory.Mark(r.id.ID, memory.StartRequested) {
		c.Memory.Record(ctx) // if it is stopped and cannot be removed, it has exited, and has not run
	}
	if seen.Live() && !c.Plan.KillPod { // KillPod has stopped all containers
		deadline := time.Now().Add(ContainerGrace(c.Pod, r.ref.Spec(c.Pod), r.why))
		c.Memory.Do(func(p *memory.Pod) { deadline = p.Kills.Begin(r.id.ID, deadline) })
		err := s.KillContainer(ctx, Container{
			Pod: c.Pod, Ref: &r.ref, Status: seen, Memory: c.Memory, IPs: c.IPs, Deadline: deadline, Message: actions.KillMessage(r.ref.Name, r.why, r.restart),
		})
		if err != nil {
			return err
		}
	}
	if r.step == StepKill {
		return nil
	}
	if err := s.Remove(ctx, r.id.ID); err != nil {
		return err
	}
	if r.step == StepReset { // a cleared instance may have run after all
		c.Memory.Do(func(p *memory.Pod) { p.Containers.ForgetRun(seen) })
	}
	return nil
}
