package agenttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// Scenario is a sequence of actions on a node, as data: it can be stored as JSON and repeated.
type Scenario struct {
	Name string
	// Seed is where chance comes from: which calls a step "chaos" strikes.
	Seed uint64 `json:",omitempty"`
	// Runtime is the one whose ways the node's runtime has: containerd-2, containerd-1.6
	// or cri-o. Empty means the first.
	Runtime string `json:",omitempty"`
	Steps   []Step
}

// Step is one thing that is done. What the fields besides After and Do mean depends on Do:
//
//	add, remove        Pod comes to those that should run, or goes. A pod is of the kind that
//	                   its name begins with: the kinds are in pods.go
//	edit               the first container of Pod has another image
//	stop-agent, kill-agent, start-agent
//	kill-agent-at      kills the agent at the N-th call from now, before it has the answer
//	restart-runtime    away for For seconds; Effect says what becomes of sandboxes and
//	                   containers: "", stopped, containers-stopped, containers-removed, removed,
//	                   unknown; Disconnect breaks connections, too
//	fail, lose-answer  the next N calls of Method for Pod: they fail, or have their effect
//	                   and fail
//	late               the next N such calls take For seconds and succeed, though the caller has gone
//	exit               ends the process of Container of Pod with the code N
//	lose-sandbox       the sandbox of Pod is not ready any more; without an event
//	drop-events, double-events, late-events  the next N events
//	break-events       ends the streams of events
//	hang-exec          handlers and probes hang for For seconds
//	chaos              calls and events go wrong by chance from now on, N of hundred
//	calm               nothing goes wrong any more
//	watch              For seconds in which nothing is done
type Step struct {
	// After is how many seconds after the step before.
	After      float64 `json:",omitempty"`
	Do         string
	Pod        string         `json:",omitempty"`
	Container  string         `json:",omitempty"`
	Method     critest.Method `json:",omitempty"`
	Effect     string         `json:",omitempty"`
	N          int            `json:",omitempty"`
	For        float64        `json:",omitempty"` // seconds
	Disconnect bool           `json:",omitempty"`
}

var models = map[string]critest.Model{
	"": critest.Containerd2, "containerd-2": critest.Containerd2, "containerd-1.6": critest.Containerd16, "cri-o": critest.CRIO,
}

func (s Scenario) validate() error {
	if s.Name == "" {
		return errors.New("a scenario without a name")
	}
	if _, known := models[s.Runtime]; !known {
		return fmt.Errorf("scenario %s: Runtime: unknown model %q", s.Name, s.Runtime)
	}
	for i, step := range s.Steps {
		if err := step.validate(); err != nil {
			return fmt.Errorf("scenario %s: Steps[%d]: %w", s.Name, i, err)
		}
	}
	return nil
}

func (s Step) validate() error {
	d, known := deeds[s.Do]
	switch {
	case !known:
		return fmt.Errorf("unknown step %q in Do", s.Do)
	case s.After < 0 || s.For < 0 || s.N < 0:
		return errors.New("negative After, For or N")
	case d.pod && !isKind(s.Pod):
		return fmt.Errorf("no kind begins the name %q in Pod, known are %s", s.Pod, strings.Join(kindNames(), ", "))
	}
	if _, known := effects[s.Effect]; !known {
		return fmt.Errorf("unknown effect %q in Effect", s.Effect)
	}
	return nil
}

func isKind(pod string) bool { _, known := kindOf(pod); return known }

// kindNames are the names of the kinds of pods.
func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// adding returns steps that add pods at once.
func adding(pods ...string) []Step {
	var all []Step
	for _, p := range pods {
		all = append(all, Step{Do: "add", Pod: p})
	}
	return all
}

func removing(pods ...string) []Step {
	var all []Step
	for _, p := range pods {
		all = append(all, Step{Do: "remove", Pod: p})
	}
	return all
}

func after(seconds float64, steps ...Step) []Step {
	steps = slices.Clone(steps)
	steps[0].After = seconds
	return steps
}

// Scenarios returns the scenarios for every agent. They test each promise, except those that need
// statuses of an agent that reports none. None takes longer than about a minute and a half before
// its results are awaited.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "in-peace", Steps: slices.Concat(
			adding("web", "leaving", "two", "crash", "job", "retry", "init", "initjob", "sidecar", "helped", "fresh", "local"),
			after(60, Step{Do: "watch", For: 20}),
			removing("leaving", "sidecar", "crash", "init"))},
		{Name: "probes-and-hooks", Steps: slices.Concat(
			adding("sick", "slow", "unready", "ready", "hooked", "hung", "deadline", "mended"),
			after(40, removing("hooked", "hung")...))},
		{Name: "idle", Steps: slices.Concat(adding("web", "two", "deaf"), after(20, Step{Do: "watch", For: 30}))},
		{Name: "removed-early", Steps: slices.Concat(
			adding("web", "init", "sidecar", "job", "two"),
			after(0.3, removing("web")...), after(0.7, removing("init")...), after(1, removing("sidecar")...), after(1, removing("job", "two")...))},
		{Name: "edited-and-brought-back", Steps: slices.Concat(
			adding("web", "two", "leaving"),
			after(8, Step{Do: "edit", Pod: "two"}), after(8, removing("leaving")...), after(1, adding("leaving")...),
			after(12, removing("web")...), after(8, adding("web")...))},
		{Name: "agent-restarts", Steps: slices.Concat(
			adding("web", "two", "job", "sidecar", "init", "hooked", "slow", "crash"),
			after(12, Step{Do: "stop-agent"}), after(3, Step{Do: "start-agent"}),
			after(15, Step{Do: "kill-agent"}), after(2, Step{Do: "start-agent"}),
			after(15, Step{Do: "watch", For: 5}))},
		{Name: "removed-while-the-agent-is-away", Steps: slices.Concat(
			adding("web", "leaving", "sidecar", "hooked"),
			after(8, Step{Do: "kill-agent"}), removing("leaving", "hooked"), after(2, Step{Do: "start-agent"}))},
		{Name: "killed-at-calls", Steps: slices.Concat(
			adding("two", "init", "job"),
			[]Step{
				{Do: "kill-agent-at", N: 9}, {After: 3, Do: "start-agent"}, {Do: "kill-agent-at", N: 14}, {After: 4, Do: "start-agent"},
				{Do: "kill-agent-at", N: 23}, {After: 5, Do: "start-agent"},
			},
			after(6, removing("two")...), []Step{{Do: "kill-agent-at", N: 3}, {After: 4, Do: "start-agent"}})},
		{Name: "runtime-restarts", Steps: slices.Concat(
			adding("web", "two", "deaf", "init"),
			after(8, Step{Do: "restart-runtime", For: 8, Disconnect: true}),
			after(20, Step{Do: "restart-runtime", For: 4, Effect: "containers-stopped"}),
			after(25, Step{Do: "restart-runtime", For: 4, Effect: "stopped"}))},
		{Name: "removed-while-the-runtime-is-away", Steps: slices.Concat(
			adding("web", "leaving", "two"),
			after(8, Step{Do: "restart-runtime", For: 10}), after(3, removing("leaving", "two")...), adding("job"))},
		{Name: "answers-lost", Steps: slices.Concat(
			[]Step{
				{Do: "lose-answer", Method: critest.RunPodSandbox, Pod: "web", N: 1},
				{Do: "lose-answer", Method: critest.CreateContainer, Pod: "two", N: 1},
				{Do: "lose-answer", Method: critest.StartContainer, Pod: "job", N: 1},
				{Do: "lose-answer", Method: critest.StopContainer, Pod: "leaving", N: 1},
			},
			adding("web", "two", "job", "leaving"), after(20, removing("leaving")...))},
		{Name: "calls-fail", Steps: slices.Concat(
			[]Step{
				{Do: "fail", Method: critest.RunPodSandbox, Pod: "web", N: 2}, {Do: "fail", Method: critest.StartContainer, Pod: "two", N: 1},
				{Do: "fail", Method: critest.StopContainer, Pod: "deaf", N: 2}, {Do: "fail", Method: critest.RemovePodSandbox, Pod: "deaf", N: 1},
			},
			adding("web", "two", "deaf"), after(25, removing("deaf")...))},
		{Name: "late", Steps: slices.Concat(
			[]Step{
				{Do: "late", Method: critest.CreateContainer, Pod: "web", N: 1, For: 6}, {Do: "late", Method: critest.StartContainer, Pod: "two", N: 1, For: 6},
				{Do: "late", Method: critest.RunPodSandbox, Pod: "job", N: 1, For: 6},
			},
			adding("web", "two", "job"), after(3, Step{Do: "kill-agent"}), after(1, Step{Do: "start-agent"}))},
		{Name: "events-lost", Steps: slices.Concat(
			[]Step{{Do: "drop-events", N: 12}}, adding("web", "init", "job"),
			after(20, Step{Do: "drop-events", N: 3}), []Step{{Do: "exit", Pod: "web", Container: "c0", N: 9}},
			after(5, Step{Do: "break-events"}), after(5, Step{Do: "double-events", N: 10}), removing("init"))},
		{Name: "sandbox-lost", Steps: slices.Concat(
			adding("web", "init", "job", "sidecar"),
			after(6, Step{Do: "lose-sandbox", Pod: "job"}), after(4, Step{Do: "lose-sandbox", Pod: "init"}), []Step{{Do: "lose-sandbox", Pod: "sidecar"}, {After: 1, Do: "break-events"}})},
	}
}
