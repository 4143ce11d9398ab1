package agenttest

import (
	"cmp"
	"slices"
	"time"
)

// Report is the result of scenarios. It can be stored as JSON.
type Report struct {
	// Agent is the tested agent's name.
	Agent     string
	Began     time.Time
	Scenarios []Played
	Outcomes  []Outcome
	Figures   []Figure `json:",omitempty"`
}

// State is a promise's result: whether it was kept, broken, or not judged.
type State string

const (
	// Kept: at least one scenario tested the promise, and it held each time.
	Kept State = "kept"
	// Broken: the promise did not hold at least once.
	Broken State = "broken"
	// NotJudged: no scenario tested the promise, or the agent does not report the statuses by which it
	// is judged.
	NotJudged State = "not judged"
)

// Outcome is one promise's result.
type Outcome struct {
	Promise  string
	Sentence string
	Source   string
	Breaks   string `json:",omitempty"`
	Own      bool   `json:",omitempty"`
	Evidence string
	State    State
	// Judged is how often the promise was tested, BrokenTimes how often it did not hold.
	Judged, BrokenTimes int
	// Breaches are some of the violations, the shortest stories first, at most one for each scenario.
	Breaches []Breach `json:",omitempty"`
}

// Breach is one violation of a promise.
type Breach struct {
	Scenario string
	Seed     uint64 `json:",omitempty"`
	Pod      string `json:",omitempty"`
	// At is the time of the violation, in seconds from the beginning of the scenario.
	At float64
	// Why describes the violation.
	Why   string
	Story []Line
}

// Line is one line of a story.
type Line struct {
	// At is the time of the line, in seconds from the beginning of the scenario.
	At float64
	// Who is the line's source: "asked" for the scenario's actions, "called" for the agent's
	// calls, "ran" for the node's processes, and "told" for the agent's reports.
	Who  string
	Text string
	// Until is when the event of the line ended, in seconds; 0 if it had no duration or has not ended.
	Until float64 `json:",omitempty"`
	// Wrong: this line broke the promise.
	Wrong bool `json:",omitempty"`
}

// Played is one scenario of a run.
type Played struct {
	Scenario Scenario
	// Err is why the scenario could not be completed. In that case no promise is judged in it.
	Err string `json:",omitempty"`
	// Took is the duration in seconds, by the scenario's own clock.
	Took   float64
	Calls  int
	Broken []string `json:",omitempty"`
}

// Figure is a duration or an amount, over all scenarios.
type Figure struct {
	Name             string
	N                int
	Median, P90, Max float64
}

// Broken returns the promises that the agent broke.
func (r *Report) Broken() []Outcome {
	return slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return o.State != Broken })
}

// Failed returns the scenarios that could not be completed.
func (r *Report) Failed() []Played {
	return slices.DeleteFunc(slices.Clone(r.Scenarios), func(p Played) bool { return p.Err == "" })
}

// mostBreaches is the maximum number of stories that are kept for one promise.
const mostBreaches = 3

// tally collects the results of scenarios.
type tally struct {
	report  Report
	figures map[string][]float64
}

func newTally() *tally {
	t := &tally{figures: map[string][]float64{}}
	t.report.Began = time.Now()
	for p := range Promises() {
		t.report.Outcomes = append(t.report.Outcomes, Outcome{
			Promise: p.Name, Sentence: p.Sentence, Source: p.Source, Breaks: p.Breaks, Own: p.Own, Evidence: p.Evidence, State: NotJudged,
		})
	}
	return t
}

// fail records a scenario that could not be completed.
func (t *tally) fail(sc Scenario, err error) {
	t.report.Scenarios = append(t.report.Scenarios, Played{Scenario: sc, Err: err.Error()})
}

// judge checks a history against all promises, and returns those that it breaks.
func (t *tally) judge(h *history) []string {
	var broken []string
	for n, p := range promises() {
		v := &verdict{h: h, figures: t.figures}
		p.check(h, v)
		t.report.Outcomes[n].add(v)
		if len(v.broken) > 0 {
			broken = append(broken, p.Name)
		}
	}
	t.report.Scenarios = append(t.report.Scenarios, Played{Scenario: h.scenario, Took: h.since(h.end), Calls: len(h.calls), Broken: broken})
	return broken
}

// add adds one scenario's verdict.
func (o *Outcome) add(v *verdict) {
	o.Judged += v.judged
	o.BrokenTimes += len(v.broken)
	switch {
	case o.BrokenTimes > 0:
		o.State = Broken
	case o.Judged > 0:
		o.State = Kept
	}
	if len(v.broken) == 0 {
		return
	}
	shortest := slices.MinFunc(v.broken, byLength)
	o.Breaches = append(o.Breaches, shortest)
	slices.SortStableFunc(o.Breaches, byLength)
	o.Breaches = o.Breaches[:min(len(o.Breaches), mostBreaches)]
}

func byLength(a, b Breach) int { return cmp.Compare(len(a.Story), len(b.Story)) }

// done returns a report on the scenarios that have ended.
func (t *tally) done() *Report {
	report := t.report
	report.Scenarios, report.Outcomes = slices.Clone(report.Scenarios), slices.Clone(report.Outcomes)
	for n := range report.Outcomes {
		report.Outcomes[n].Breaches = slices.Clone(report.Outcomes[n].Breaches)
	}
	for name, all := range t.figures {
		all = slices.Sorted(slices.Values(all))
		report.Figures = append(report.Figures, Figure{
			Name: name, N: len(all), Median: all[len(all)/2], P90: all[len(all)*9/10], Max: all[len(all)-1],
		})
	}
	slices.SortFunc(report.Figures, func(a, b Figure) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(report.Scenarios, func(a, b Played) int { return cmp.Compare(a.Scenario.Name, b.Scenario.Name) })
	return &report
}
