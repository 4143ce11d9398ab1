package plancheck

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
)

// container is an instance's known state.
type container struct {
	pod     types.UID
	name    string
	attempt uint32
	// ended means that the runtime has reported that it does not run, or that a stop of it has succeeded.
	ended bool
}

// judge judges a call that begins. rule returns the violation, empty if there is none.
func (c *Checker) judge(uid types.UID, call string, rule func(*pod) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uid == "" {
		return // the runtime has not reported its pod yet
	}
	c.judged++
	p := c.pod(uid)
	if wrong := rule(p); wrong != "" {
		plan := "none"
		if p.plan != nil {
			plan = p.plan.String()
		}
		c.wrong(uid, "%s %s. The plan:\n%s", call, wrong, plan)
	}
}

// create judges a CreateContainer. The attempt may be higher than in the plan.
func (p *pod) create(name string, attempt uint32) string {
	wrong, at := p.startsNow(name)
	if wrong != "" {
		return wrong
	}
	planned := p.inFlight[name]
	if at >= 0 {
		planned = &inFlight{StartStep: p.plan.Start[at]}
	}
	if attempt < planned.Attempt {
		return fmt.Sprintf("has attempt %d, and the plan attempt %d", attempt, planned.Attempt)
	}
	return ""
}

// waitsForOthers reports whether a step that has begun must come after all steps before it.
func (p *pod) waitsForOthers(s actions.StartStep) bool {
	return p.begun["start "+s.Container.Name] && !s.Independent()
}

// startsNow judges a call that brings a container to run.
func (p *pod) startsNow(name string) (wrong string, at int) {
	if p.plan == nil || p.ends {
		return "belongs to no plan", 0
	}
	at = p.startOf(name)
	switch {
	case at < 0 && p.inFlight[name] != nil:
		p.inFlight[name].begun = true
		return "", -1
	case at < 0:
		return "is not in the plan", 0
	case p.plan.TerminatesPod(), p.plan.Hold.Holds(), p.plan.Sandbox.Hold.Holds(), p.plan.Start[at].Hold.Holds():
		return "has to wait", 0
	case p.plan.Start[at].Container.Kind != actions.EphemeralContainer && slices.ContainsFunc(p.plan.Start[at+1:], p.waitsForOthers):
		return "comes after a container that is to start later", 0
	}
	p.begun["start "+name] = true
	return p.enter(starting), at
}

func (p *pod) run(attempt uint32) string {
	switch {
	case p.plan == nil, p.ends:
		return "belongs to no plan"
	case !p.plan.Sandbox.Create:
		return "is not in the plan"
	case p.plan.TerminatesPod(), p.plan.Hold.Holds(), p.plan.Sandbox.Hold.Holds():
		return "has to wait"
	case attempt < p.plan.Sandbox.Attempt:
		return fmt.Sprintf("has attempt %d, and the plan attempt %d", attempt, p.plan.Sandbox.Attempt)
	}
	p.begun[sandboxMade] = true
	return p.enter(making)
}

func (p *pod) update(id string) string {
	if p.plan == nil || p.ends {
		return "belongs to no plan"
	}
	at := p.resizeOf(id)
	if move := p.moveOf(id); move >= 0 && (at < 0 || p.begun["resize "+id]) {
		if p.plan.Hold.Holds() || p.plan.Sandbox.Hold.Holds() || p.plan.CPUSets[move].Hold.Holds() {
			return "has to wait"
		}
		p.begun["move "+id] = true
		return p.enter(resizing)
	}
	switch {
	case at < 0:
		return "is not in the plan"
	case p.plan.Hold.Holds(), p.plan.Sandbox.Hold.Holds(), p.plan.Resize[at].Hold.Holds():
		return "has to wait"
	case at < p.resize:
		return "comes after a container that is to be resized later"
	}
	p.resize = at
	p.begun["resize "+id] = true
	return p.enter(resizing)
}

// stop judges a StopContainer call. A starting container is stopped if its postStart handler
// fails, or if it has the name that the new container needs.
func (p *pod) stop(id string, c *container) string {
	switch {
	case p.ends:
		return ""
	case p.plan == nil:
		return "belongs to no plan"
	case p.starts(c), p.runsHook(id), p.stopping[id], p.hooked[c.name]:
		return ""
	case p.begun[id] && !p.begun["start "+c.name]: // a stop may take two calls, and delays only its own container
		return ""
	case p.plan.KillPod:
		return p.enter(removing)
	}
	if found, _ := p.removal(id); found {
		p.begun[id] = true
		return p.enter(removing)
	}
	return "is not in the plan"
}

// starts reports whether an instance was made by a step of the plan, or holds its name.
func (p *pod) starts(c *container) bool {
	if flying := p.inFlight[c.name]; flying != nil && flying.begun && c.attempt >= flying.Attempt {
		return true
	}
	at := p.startOf(c.name)
	return at >= 0 && p.begun["start "+c.name] && c.attempt >= p.plan.Start[at].Attempt
}

func (p *pod) runsHook(id string) bool {
	for _, s := range p.plan.PostStart {
		if s.ID.ID == id {
			return true
		}
	}
	return false
}

// remove judges a RemoveContainer call. Housekeeping removes exited containers.
func (p *pod) remove(id string, c *container) string {
	if p.plan != nil && !p.ends {
		found, removes := p.removal(id)
		switch {
		case p.begun[id] && !p.begun["start "+c.name]: // it follows its stop, and delays only its own container
			return ""
		case found && (removes || !c.ended):
			p.begun[id] = true
			return p.enter(removing)
		}
		if p.plan.KillPod || p.starts(c) || p.stopping[id] {
			return ""
		}
	}
	if p.ends || c.ended {
		return ""
	}
	return "is not in the plan, and it has not ended"
}

// stopSandbox judges a call that stops or removes a sandbox. Unused sandboxes are
// removed by housekeeping, and before a plan is computed.
func (p *pod) stopSandbox(id string) string {
	switch {
	case p.ends, id != p.sandbox:
		return ""
	case p.plan == nil:
		return "belongs to no plan"
	case p.plan.KillPod, p.begun[sandboxMade]:
		p.sandbox = "" // housekeeping may remove it, also if no sandbox is made in its place
		return ""
	}
	return "is not in the plan"
}
