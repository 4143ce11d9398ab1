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
	// Seed is the source of chance: it selects the calls that a step "chaos" makes fail.
	Seed uint64 `json:",omitempty"`
	// Runtime is the real runtime that the node's runtime imitates: containerd-2, containerd-1.6 or
	// cri-o. Empty means containerd-2.
	Runtime string `json:",omitempty"`
	Steps   []Step
}

// Step is one action. Do determines the meaning of the fields besides After and Do:
//
//	add, remove        adds Pod to the pods that should run, or removes it. The kind of a pod is
//	                   what its name begins with: the kinds are in pods.go
//	edit               changes the image of the first container of Pod
//	stop-agent, kill-agent, start-agent
//	kill-agent-at      kills the agent at the N-th call from now, before it has the response
//	restart-runtime    makes the runtime unavailable for For seconds; Effect is the effect on
//	                   sandboxes and containers: "", stopped, containers-stopped,
//	                   containers-removed, removed, unknown; Disconnect breaks connections, too
//	fail, lose-answer  the next N calls of Method for Pod fail; with lose-answer they have their
//	                   effect nevertheless
//	late               the next N such calls take For seconds and succeed, even without a caller
//	exit               ends the process of Container of Pod with the code N
//	lose-sandbox       makes the sandbox of Pod not ready, without an event
//	drop-events, double-events, late-events  apply to the next N events
//	break-events       ends the streams of events
//	hang-exec          handlers and probes hang for For seconds
//	chaos              from now on, N percent of calls and events have random faults
//	calm               ends all faults
//	watch              does nothing for For seconds
type Step struct {
	// After is the time since the step before, in seconds.
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

// kindNames returns the names of the kinds of pods.
func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// adding returns steps that add pods at the same time.
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

// Scenarios returns the scenarios for every agent. They test each promise; some promises also require an
// agent that reports statuses. The actions of a scenario take at most about a minute and a half. Then
// the run waits for their results.
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
