package actions

import (
	"fmt"
	"strings"

	"github.com/podsync/podsync/runtime"
)

// Explain answers in plain words, for the container of that name, what Compute
// does with it and why, or why it leaves it alone. The words are for people and
// may change; programs read the Plan and ask Why.
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

func explainStranger(in Input, name string) string {
	if in.Status.Latest(name) == nil {
		return fmt.Sprintf("The pod has no container named %q, and the runtime does not know one either.", name)
	}
	return fmt.Sprintf("The runtime has a container %q that is not in the pod's spec: "+
		"it is left alone as long as the pod is not stopped as a whole.", name)
}

// steps returns what the plan does with a container, a sentence a step.
func (d *decision) steps(ref ContainerRef) []string {
	var did []string
	say := func(format string, args ...any) { did = append(did, subject(ref)+" "+fmt.Sprintf(format, args...)) }
	p := d.plan
	if p.KillPod && d.mayBeAlive(ref) {
		say("is stopped with the whole pod: %v", p.KillReason)
	}
	for _, s := range p.Kill {
		if s.Container == ref {
			say("is stopped: %v", s.Reason)
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
			say("is started as attempt %d: %v", s.Attempt, s.Reason)
		}
	}
	for _, s := range p.Resize {
		if s.Container == ref {
			say("has its %s changed in place: %v", s.resources(), s.Reason)
		}
	}
	return did
}

// subject returns the container as the beginning of a sentence.
func subject(ref ContainerRef) string {
	words := ref.String()
	return strings.ToUpper(words[:1]) + words[1:]
}

// observed says what the runtime reports of a container.
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
	if ref.Kind == EphemeralContainer { // which has none
		return said
	}
	return said + fmt.Sprintf("; its restart policy is %s", restartPolicy(d.Pod, ref.Spec(d.Pod)))
}
