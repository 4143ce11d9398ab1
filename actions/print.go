package actions

import (
	"fmt"
	"strings"
)

// String prints the plan, one line a step in execution order, each with its
// reason. The form is stable: equal plans print alike.
func (p Plan) String() string {
	if p.Invalid != nil {
		return fmt.Sprintf("nothing is decided: %v\n", p.Invalid)
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if p.Hold.Holds() {
		line("wait%v", p.Hold)
	}
	switch {
	case p.TerminatesPod():
		line("stop the pod: %v", p.KillReason)
	case p.stopsAll():
		line("stop the pod for now: %v", p.KillReason)
	case p.KillPod:
		line("stop what is left of the pod: %v", p.KillReason)
	}
	for _, s := range p.Kill {
		line("%v", s)
	}
	for _, s := range p.Clear {
		line("clear %v %v: %v", s.Container, s.ID, s.Reason)
	}
	for _, s := range p.Reset {
		line("%v", s)
	}
	if p.Sandbox.Create {
		line("create sandbox, attempt %d: %v", p.Sandbox.Attempt, p.Sandbox.Reason)
	}
	if p.Sandbox.Hold.Holds() {
		line("wait for the sandbox%v", p.Sandbox.Hold)
	}
	for _, s := range p.PostStart {
		line("run the postStart handler of %v %v: it has not been seen to end", s.Container, s.ID)
	}
	for _, s := range p.Start {
		line("start %v, attempt %d: %v%s", s.Container, s.Attempt, s.Reason, s.Hold.suffix())
	}
	for _, s := range p.Resize {
		line("resize %s of %v %v: %v%s", s.resources(), s.Container, s.ID, s.Reason, s.Hold.suffix())
	}
	for _, s := range p.CPUSets {
		line("move %v %v to %s: %v%s", s.Container, s.ID, s.words(), s.Reason, s.Hold.suffix())
	}
	if b.Len() == 0 {
		line("nothing to do")
	}
	return b.String()
}

// String prints the step in one line.
func (s KillStep) String() string {
	again := ""
	if s.Restart {
		again = ", then start it again"
	}
	return fmt.Sprintf("kill %v %v: %v%s", s.Container, s.ID, s.Reason, again)
}

// String prints the step in one line.
func (s ResetStep) String() string {
	verb := "remove"
	if s.Stop {
		verb = "stop and remove"
	}
	return fmt.Sprintf("%s %v %v: %v", verb, s.Container, s.ID, s.Reason)
}

// suffix returns the line part that describes the wait.
func (h Hold) suffix() string {
	if !h.Holds() {
		return ""
	}
	return fmt.Sprintf("; wait%v", h)
}

func (s ResizeStep) resources() string {
	switch {
	case s.CPU && s.Memory:
		return "cpu and memory"
	case s.CPU:
		return "cpu"
	}
	return "memory"
}

// words returns the CPUs, and the NUMA nodes if they are restricted.
func (s CPUSetStep) words() string {
	if s.CPUSet.Mems == "" {
		return "cpus " + s.CPUSet.CPUs
	}
	return "cpus " + s.CPUSet.CPUs + " and mems " + s.CPUSet.Mems
}
