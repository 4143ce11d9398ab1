package simulation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri/critest"
)

// result is the report of a life by the process that ran it.
type result struct {
	Seed uint64
	// Broken are the rules that did not hold.
	Broken []string `json:",omitempty"`
	// Digest is equal for two lives with the same calls and statuses at
	// the same times.
	Digest string
	// Lasted is virtual time.
	Lasted time.Duration
	Calls  int
	// Met counts the faults of calls, by "method: fault", and the actions on the node.
	Met map[string]int
	// Judged counts the cases that each rule has judged.
	Judged map[string]int
	// Story has the events of a life that has broken a rule, or whose story was requested.
	Story []string `json:",omitempty"`
}

// result judges a life.
func (tr *trace) result(seed uint64, tell bool) result {
	r := result{Seed: seed, Met: tr.met, Judged: map[string]int{}, Calls: len(tr.calls), Lasted: tr.end.Sub(tr.begin)}
	for _, rule := range rules {
		var v verdict
		rule.check(tr, &v)
		r.Judged[rule.name] += v.judged
		for _, what := range v.broken {
			r.Broken = append(r.Broken, rule.name+": "+what)
		}
	}
	for _, c := range tr.calls {
		if c.Fault != "" {
			r.Met[fmt.Sprintf("%s: %s", c.Method, kindOf(c.Fault))]++
		}
	}
	story := tr.story()
	sum := sha256.New()
	for _, line := range story {
		fmt.Fprintln(sum, line.at.UnixNano(), line.text)
	}
	r.Digest = hex.EncodeToString(sum.Sum(nil))
	if tell || len(r.Broken) > 0 {
		for _, line := range story {
			r.Story = append(r.Story, fmt.Sprintf("%s %s", clock(line.at), line.text))
		}
	}
	return r
}

// event is one line of a story.
type event struct {
	at   time.Time
	text string
}

// story returns the events in order. Simultaneous events are sorted by their text.
func (tr *trace) story() []event {
	all := slices.Clone(tr.said)
	for _, c := range tr.calls {
		all = append(all, event{c.Start, callLine(c)})
	}
	for _, s := range tr.statuses {
		all = append(all, event{s.at, s.line()})
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.text, b.text)) })
	return all
}

// callLine leaves out the number of a call, which says nothing in one instant.
func callLine(c critest.Call) string {
	line := fmt.Sprintf("  %s", c.Subject())
	if !c.Done() {
		return line + " never ends"
	}
	line += fmt.Sprintf(" until %s %v", clock(c.End), codeOf(c))
	if c.Fault != "" {
		line += " (" + c.Fault + ")"
	}
	return line
}

// codeOf is the code of the answer. Of a deadline both ends of a connection hear in
// one instant: who is first is chance.
func codeOf(c critest.Call) codes.Code {
	if code := status.Code(c.Err); code != codes.DeadlineExceeded {
		return code
	}
	return codes.Canceled
}

// kindOf returns the description of a fault without its duration.
func kindOf(fault string) string {
	when, what, _ := strings.Cut(fault, ": ")
	parts := strings.Split(what, ", ")
	for i, p := range parts {
		parts[i], _, _ = strings.Cut(p, " ")
	}
	return when + " " + strings.Join(parts, ", ")
}

// line prints a status.
func (s published) line() string {
	line := fmt.Sprintf("    status %s %s %s", s.uid, s.status.Phase, s.status.Reason)
	for _, c := range containerStatuses(s.status) {
		line += fmt.Sprintf("; %s %d", c.Name, c.RestartCount)
		switch {
		case c.State.Running != nil:
			line += " running"
		case c.State.Waiting != nil:
			line += " " + c.State.Waiting.Reason
		}
		for _, end := range ended(c) {
			line += fmt.Sprintf(" %d (%s, %.22s)", end.ExitCode, end.Reason, end.ContainerID)
		}
	}
	return line
}
