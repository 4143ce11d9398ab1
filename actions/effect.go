package actions

import (
	"slices"

	"github.com/podsync/podsync/runtime"
)

// Effect is what a plan does with a container, or what several plans do with a pod, in one word.
type Effect uint8

const (
	// Unchanged means that nothing happens.
	Unchanged Effect = iota
	// Waits means that something must happen, and cannot yet.
	Waits
	// Resizes means that resources, or the CPUs that it runs on, change in place.
	Resizes
	// Starts means that it does not run, and it is started.
	Starts
	// Stops means that it runs, is stopped and not started again.
	Stops
	// Restarts means that it runs, is stopped and started again.
	Restarts
)

// String returns the word, such as "restarts".
func (e Effect) String() string {
	names := [...]string{"unchanged", "waits", "resizes", "starts", "stops", "restarts"}
	if int(e) >= len(names) {
		return "unknown"
	}
	return names[e]
}

// MarshalText returns what String does.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a word that String returns. All other words are Unchanged.
func (e *Effect) UnmarshalText(text []byte) error {
	*e = Unchanged
	for known := range Restarts + 1 {
		if known.String() == string(text) {
			*e = known
		}
	}
	return nil
}

// A ContainerEffect is what a plan does with one container, and why.
type ContainerEffect struct {
	Container ContainerRef
	Effect    Effect
	Reason    Reason
	// Hold is what the container waits for, if its Effect is Waits and the wait is a Hold in the plan.
	Hold Hold
}

// Effects returns what Compute does with each container in the pod, in the order init, regular and ephemeral containers.
// It returns nil for an input that Validate rejects.
func Effects(in Input) []ContainerEffect {
	if in.Validate() != nil {
		return nil
	}
	plan := Compute(in)
	var all []ContainerEffect
	add := func(ref ContainerRef) {
		why, _ := Why(in, ref.Name)
		e := ContainerEffect{Container: ref, Reason: why}
		last := in.Status.Latest(ref.Name)
		e.Effect, e.Hold = plan.effectOn(ref, why, last != nil && (last.State == runtime.ContainerRunning || last.State == runtime.ContainerUnknown))
		all = append(all, e)
	}
	for i := range in.Pod.Spec.InitContainers {
		add(initRef(in.Pod, i))
	}
	for i := range in.Pod.Spec.Containers {
		add(regularRef(in.Pod, i))
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		add(ephemeralRef(in.Pod, i))
	}
	return all
}

// effectOn returns the effect on a container that is alive or not, and why it waits if it does.
func (p *Plan) effectOn(ref ContainerRef, why Reason, alive bool) (Effect, Hold) {
	stopped := p.KillPod && alive || slices.ContainsFunc(p.Kill, func(s KillStep) bool { return s.Container == ref })
	reset := slices.ContainsFunc(p.Reset, func(s ResetStep) bool { return s.Container == ref && s.Stop })
	for _, s := range p.Start {
		switch {
		case s.Container != ref:
		case stopped:
			return Restarts, Hold{}
		case s.Hold.Holds():
			return Waits, s.Hold
		default:
			return Starts, Hold{}
		}
	}
	for _, s := range p.Resize {
		if s.Container == ref {
			return s.Hold.orElse(Resizes)
		}
	}
	for _, s := range p.CPUSets {
		if s.Container == ref {
			return s.Hold.orElse(Resizes)
		}
	}
	waits := why == WaitsForInit || why == WaitsForSandbox || why == WaitsForReset
	switch {
	case reset, stopped && waits:
		return Restarts, Hold{}
	case stopped:
		return Stops, Hold{}
	case p.Hold.Holds():
		return Waits, p.Hold
	case waits:
		return Waits, Hold{}
	}
	return Unchanged, Hold{}
}

// orElse returns Waits with a hold that holds, or else an effect.
func (h Hold) orElse(e Effect) (Effect, Hold) {
	if h.Holds() {
		return Waits, h
	}
	return e, Hold{}
}
