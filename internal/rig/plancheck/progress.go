package plancheck

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// pod is the progress of the agent's work on one pod.
type pod struct {
	progress
	// ends is set once the pod is to end.
	ends bool
	// sandbox is the one in use, as far as is known.
	sandbox string
	// failedPulls are the images, by reference, whose last pull for the pod has failed.
	failedPulls map[string]bool
}

// progress is how far a plan has been carried out.
type progress struct {
	// plan is nil while none has been made in the work, and between works.
	plan *actions.Plan
	// of is the pod that the plan was made for.
	of *v1.Pod
	// begun are the steps that were begun: see key.
	begun map[string]bool
	// inFlight are the starts of earlier plans of the work that the last plan leaves to them, by container.
	inFlight map[string]*inFlight
	// stopping are the instances whose stops earlier plans of the work have begun.
	stopping map[string]bool
	// hooked are the containers whose postStart handlers earlier plans of the work have begun: one that fails stops its container.
	hooked map[string]bool
	// resize is the place of the last resize that was begun.
	resize int
	past   stage
}

// inFlight is a start of an earlier plan.
type inFlight struct {
	actions.StartStep
	begun bool
}

// stopsBegun returns the instances whose stops this plan or those before it have begun.
func (p *progress) stopsBegun() map[string]bool {
	all := map[string]bool{}
	maps.Copy(all, p.stopping)
	if p.plan != nil {
		for id := range p.removals() {
			all[id] = all[id] || p.begun[id]
		}
	}
	return all
}

// hooksBegun returns the containers whose postStart handlers this plan or those before it have begun.
func (p *progress) hooksBegun() map[string]bool {
	all := map[string]bool{}
	maps.Copy(all, p.hooked)
	if p.plan == nil {
		return all
	}
	for _, s := range p.plan.PostStart {
		all[s.Container.Name] = true
	}
	for c := range runtime.AllContainers(p.of) {
		if c.Lifecycle != nil && c.Lifecycle.PostStart != nil && p.begun["start "+c.Name] {
			all[c.Name] = true
		}
	}
	return all
}

// stillInFlight returns the starts that a new plan of the same work leaves to the plans before it: those that were not begun and
// are not in it. A plan that stops the pod, or starts it over, ends them.
func (p *progress) stillInFlight(next actions.Plan) map[string]*inFlight {
	if p.plan == nil || next.KillPod || next.Sandbox.Create || len(next.Reset) > 0 {
		return nil
	}
	left := map[string]*inFlight{}
	for name, f := range p.inFlight {
		left[name] = f
	}
	for _, s := range p.plan.Start {
		if !s.Hold.Holds() && !p.begun["start "+s.Container.Name] {
			left[s.Container.Name] = &inFlight{StartStep: s}
		}
	}
	for _, s := range next.Start {
		delete(left, s.Container.Name)
	}
	return left
}

// stage is the group of steps of a plan that comes next.
type stage uint8

const (
	removing stage = iota
	making
	starting
	resizing
)

const sandboxMade = "sandbox"

// removal reports whether the plan stops or removes an instance, and whether it removes it.
func (p *progress) removal(id string) (found, removes bool) {
	for _, s := range p.plan.Kill {
		found = found || s.ID.ID == id
	}
	for _, s := range p.plan.Clear {
		found, removes = found || s.ID.ID == id, removes || s.ID.ID == id
	}
	for _, s := range p.plan.Reset {
		found, removes = found || s.ID.ID == id, removes || s.ID.ID == id
	}
	return found, removes
}

func (p *progress) startOf(name string) int {
	return slices.IndexFunc(p.plan.Start, func(s actions.StartStep) bool { return s.Container.Name == name })
}

func (p *progress) resizeOf(id string) int {
	return slices.IndexFunc(p.plan.Resize, func(s actions.ResizeStep) bool { return s.ID.ID == id })
}

func (p *progress) moveOf(id string) int {
	return slices.IndexFunc(p.plan.CPUSets, func(s actions.CPUSetStep) bool { return s.ID.ID == id })
}

// enter records the start of a step of a stage. It returns the violation, if any.
func (p *progress) enter(next stage) string {
	if next < p.past && !(next == starting && p.past == resizing) { // resizes do not wait for a pull
		return "comes too late: later steps of the plan have been begun"
	}
	if p.past = max(p.past, next); next == removing {
		return ""
	}
	for id, last := range p.removals() {
		if !p.begun[id] && !(last && next == making) { // the last of a reset waits until the others have succeeded
			return "comes too early: " + id + " was not stopped or removed"
		}
	}
	if next > making && p.plan.Sandbox.Create && !p.begun[sandboxMade] {
		return "comes too early: there is no new sandbox"
	}
	return ""
}

// removals are the instances that the plan stops or removes, by ID, and whether they are the last
// of a reset.
func (p *progress) removals() map[string]bool {
	all := map[string]bool{}
	for _, s := range p.plan.Kill {
		all[s.ID.ID] = false
	}
	for _, s := range p.plan.Clear {
		all[s.ID.ID] = false
	}
	for _, s := range p.plan.Reset {
		all[s.ID.ID] = s.Last
	}
	return all
}

// left returns a step that was not begun although it should have been, empty if there is
// none. A container whose image cannot be pulled may wait for that without an error.
func (p *pod) left() string {
	plan := p.plan
	if plan.TerminatesPod() || plan.Hold.Holds() {
		return ""
	}
	for id := range p.removals() {
		if !p.begun[id] {
			return "the stop or removal of " + id
		}
	}
	if plan.Sandbox.Hold.Holds() {
		return ""
	}
	if plan.Sandbox.Create && !p.begun[sandboxMade] {
		return "the sandbox"
	}
	for _, s := range plan.Start {
		if !s.Hold.Holds() && !p.begun["start "+s.Container.Name] && !p.waitsForImage(s.Container.Spec(p.of)) {
			return fmt.Sprintf("the start of %v", s.Container)
		}
	}
	for _, f := range p.inFlight {
		if !f.begun && !p.waitsForImage(f.Container.Spec(p.of)) {
			return fmt.Sprintf("the start of %v", f.Container)
		}
	}
	held := slices.ContainsFunc(plan.Resize, func(s actions.ResizeStep) bool { return s.Hold.Holds() })
	for _, s := range plan.Resize {
		if !held && !p.begun["resize "+s.ID.ID] {
			return fmt.Sprintf("the resize of %v", s.Container)
		}
	}
	for _, s := range plan.CPUSets {
		if !s.Hold.Holds() && !p.begun["move "+s.ID.ID] {
			return fmt.Sprintf("the move of %v", s.Container)
		}
	}
	return ""
}

// waitsForImage reports whether a pull that a container needs has failed: its next pull may have
// to wait.
func (p *pod) waitsForImage(spec *v1.Container) bool {
	return p.failedPulls[spec.Image] || slices.ContainsFunc(p.of.Spec.Volumes, func(v v1.Volume) bool {
		return v.Image != nil && p.failedPulls[v.Image.Reference]
	})
}
