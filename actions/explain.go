package actions

import (
	"fmt"
	"strings"

	"github.com/podsync/podsync/runtime"
)

// Explain describes in words what Compute does with the named container and why, or why it leaves
// the container alone. The text is for people and may change; programs use the Plan and Why.
func Explain(in Input, name string) string {
	if err := in.Validate(); err != nil {
		return fmt.Sprintf("Nothing is done, because the input is not valid: %v.", err)
	}
	ref, ok := FindContainer(in.Pod, name)
	if !ok {
		return explainStranger(in, name)
	}
	d := decideWatching(in, ref)
	did := d.steps(ref)
	if len(did) == 0 {
		did = []string{fmt.Sprintf("%s is left alone: %v", subject(ref), d.why(ref))}
	}
	if d.plan.stopsAll() {
		did = append(did, fmt.Sprintf("The pod is stopped: %v", d.plan.KillReason))
	}
	return strings.Join(append(did, d.observed(ref)), ". ") + "."
}

// ExplainPod describes in words what Compute does with the pod and with each container, why,
// and what it waits for: one line for the pod and one for each container.
func ExplainPod(in Input) string {
	if err := in.Validate(); err != nil {
		return fmt.Sprintf("Nothing is done, because the input is not valid: %v.\n", err)
	}
	lines := explainPod(Compute(in)) + "\n"
	for at := range count(in.Pod) {
		lines += Explain(in, specAt(in.Pod, at).Name) + "\n"
	}
	return lines
}

// explainPod describes what a plan does with the pod as a whole.
func explainPod(p Plan) string {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)+".") }
	switch {
	case p.Hold.Holds():
		say("The pod waits%v", p.Hold.clause())
	case p.TerminatesPod():
		say("The pod is stopped for good: %v", p.KillReason)
	case p.stopsAll():
		say("The pod is stopped, and then judged again: %v", p.KillReason)
	case p.Sandbox.Create:
		say("The pod gets a new sandbox, attempt %d: %v", p.Sandbox.Attempt, p.Sandbox.Reason)
	case p.NoOp():
		say("The pod is as it should be")
	default:
		say("The pod stays in its sandbox, and some of its containers change")
	}
	if message := p.SandboxMessage(); message != "" {
		said = append(said, message)
	}
	if p.Hold.Holds() && p.KillPod {
		say("Its containers are stopped meanwhile")
	}
	if p.Sandbox.Hold.Holds() {
		say("No container is started before its sandbox is ready. The sandbox waits%v", p.Sandbox.Hold.clause())
	}
	return strings.Join(said, " ")
}

// clause ends a sentence which says that something waits.
func (h Hold) clause() string {
	if h.Message != "" {
		return fmt.Sprintf("%v (%s)", h, h.Message)
	}
	return h.String()
}

func explainStranger(in Input, name string) string {
	if in.Status.Latest(name) == nil {
		return fmt.Sprintf("The pod has no container named %q, and the runtime does not know one either.", name)
	}
	return fmt.Sprintf("The runtime has a container %q that is not in the pod's spec: "+
		"it is left alone as long as the pod is not stopped as a whole.", name)
}

// steps describes what the plan does with a container, one sentence for each step.
func (d *decision) steps(ref ContainerRef) []string {
	var did []string
	say := func(format string, args ...any) { did = append(did, subject(ref)+" "+fmt.Sprintf(format, args...)) }
	p := d.plan
	if d.isInFlight(ref.Name) {
		say("is left to a step of an earlier plan that has not ended")
	}
	if p.KillPod && d.mayBeAlive(ref) {
		did = append(did, fmt.Sprintf("%s with the whole pod: %v", KillMessage(ref.Name, ReasonNone, false), p.KillReason))
	}
	for _, s := range p.Kill {
		if s.Container == ref {
			did = append(did, KillMessage(s.Container.Name, s.Reason, s.Restart))
		}
	}
	for _, s := range p.Clear {
		if s.Container == ref {
			say("has an instance %v that is removed: %v", s.ID, s.Reason)
		}
	}
	for _, s := range p.Reset {
		if s.Container == ref {
			say("has its instance %v removed: %v", s.ID, s.Reason)
		}
	}
	for _, s := range p.Start {
		if s.Container == ref {
			say("%s as attempt %d: %v", s.Hold.phrase("is started", "is to be started"), s.Attempt, s.Reason)
			did = append(did, s.Hold.sentences("The start")...)
		}
	}
	for _, s := range p.Resize {
		if s.Container == ref {
			say("%s its %s changed in place: %v", s.Hold.phrase("has", "is to have"), s.resources(), s.Reason)
			did = append(did, s.Hold.sentences("The change")...)
		}
	}
	for _, s := range p.CPUSets {
		if s.Container == ref {
			say("%s to %s: %v", s.Hold.phrase("moves", "is to move"), s.words(), s.Reason)
			did = append(did, s.Hold.sentences("The move")...)
		}
	}
	for _, s := range p.PostStart {
		if s.Container == ref {
			say("has its postStart handler run again, because the handler has not been seen to end")
		}
	}
	return did
}

// phrase returns now, or later if there is a wait.
func (h Hold) phrase(now, later string) string {
	if h.Holds() {
		return later
	}
	return now
}

// sentences say that something waits, if it does.
func (h Hold) sentences(what string) []string {
	if !h.Holds() {
		return nil
	}
	return []string{what + " waits" + h.clause()}
}

// subject returns the container as a sentence begins.
func subject(ref ContainerRef) string {
	words := ref.String()
	return strings.ToUpper(words[:1]) + words[1:]
}

// observed describes a container's status.
func (d *decision) observed(ref ContainerRef) string {
	c := d.current(ref)
	if c == nil {
		return "The runtime reports no instance of it"
	}
	said := fmt.Sprintf("The runtime reports attempt %d of it as %v", c.Attempt, c.State)
	if c.State == runtime.ContainerExited {
		said += fmt.Sprintf(" with exit code %d", c.ExitCode)
		if c.Reason != "" {
			said += fmt.Sprintf(" (%s)", c.Reason)
		}
	}
	if ref.Kind == EphemeralContainer { // an ephemeral container has no restart policy
		return said
	}
	return said + fmt.Sprintf("; its restart policy is %s", restartPolicy(d.Pod, ref.Spec(d.Pod)))
}
