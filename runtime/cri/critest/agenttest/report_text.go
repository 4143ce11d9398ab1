package agenttest

import (
	"fmt"
	"io"
	"strings"
)

// text returns a breach with its story, for people.
func (b Breach) text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "In %s", b.Scenario)
	if b.Seed != 0 {
		fmt.Fprintf(&s, " (seed %d)", b.Seed)
	}
	if b.Pod != "" {
		fmt.Fprintf(&s, ", pod %s", b.Pod)
	}
	fmt.Fprintf(&s, ", at %.2f s: %s.\n", b.At, b.Why)
	for _, l := range b.Story {
		mark := "  "
		if l.Wrong {
			mark = "> "
		}
		fmt.Fprintf(&s, "%s%8.2f s  %-6s  %s%s\n", mark, l.At, l.Who, l.Text, until(l))
	}
	return s.String()
}

func until(l Line) string {
	if l.Until == 0 {
		return ""
	}
	return fmt.Sprintf(", until %.2f s", l.Until)
}

// WriteText writes the report for people: the broken promises with their stories, and a table of all
// promises.
func (r *Report) WriteText(w io.Writer) error {
	var s strings.Builder
	for _, o := range r.Broken() {
		fmt.Fprintf(&s, "BROKEN  %s\n%s\n", o.Promise, wrap(o.Sentence, "  "))
		fmt.Fprintf(&s, "  Promised in %s\n", o.Source)
		if o.Breaks != "" {
			fmt.Fprintf(&s, "  Known of others: %s\n", o.Breaks)
		}
		fmt.Fprintf(&s, "%s\n", indent(o.Breaches[0].text()))
	}
	for _, p := range r.Failed() {
		fmt.Fprintf(&s, "NOT PLAYED  %s: %s\n\n", p.Scenario.Name, p.Err)
	}
	r.table(&s)
	_, err := io.WriteString(w, s.String())
	return err
}

func (r *Report) table(s *strings.Builder) {
	fmt.Fprintf(s, "%-26s %-11s %8s %8s\n", "PROMISE", "STATE", "JUDGED", "BROKEN")
	count := map[State]int{}
	for _, o := range r.Outcomes {
		count[o.State]++
		name := o.Promise
		if o.Own {
			name += " *"
		}
		fmt.Fprintf(s, "%-26s %-11s %8d %8d\n", name, o.State, o.Judged, o.BrokenTimes)
	}
	fmt.Fprintf(s, "\n%d kept, %d broken, %d not judged. Scenarios: %d.", count[Kept], count[Broken], count[NotJudged], len(r.Scenarios))
	fmt.Fprintf(s, " * is podsync's own promise, which no document of Kubernetes makes.\n")
	for _, f := range r.Figures {
		fmt.Fprintf(s, "%s: median %.2f, nine of ten %.2f, at most %.2f (of %d)\n", f.Name, f.Median, f.P90, f.Max, f.N)
	}
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

// wrap breaks a text into lines of a terminal's width.
func wrap(text, before string) string {
	var s strings.Builder
	line := before
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > 100 {
			s.WriteString(line + "\n")
			line = before
		}
		if line != before {
			line += " "
		}
		line += word
	}
	return s.String() + line
}
