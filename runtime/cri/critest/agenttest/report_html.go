package agenttest

import (
	"fmt"
	"html/template"
	"io"
)

// WriteHTML writes the report as one page that needs no other file. The page has each broken
// promise's timeline.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"count": r.count, "place": place, "width": width, "seconds": func(s float64) string { return fmt.Sprintf("%.2f", s) },
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

func (r *Report) count(s State) int {
	n := 0
	for _, o := range r.Outcomes {
		if o.State == s {
			n++
		}
	}
	return n
}

// bounds returns the times in a story's first and last lines.
func (b Breach) bounds() (from, to float64) {
	from, to = b.Story[0].At, b.At
	for _, l := range b.Story {
		to = max(to, l.At, l.Until)
	}
	return from, max(to, from+0.001)
}

// narrowest is the minimum width of a line on a timeline, in hundredths.
const narrowest = 0.6

// place returns where a line begins on a timeline, in hundredths of it.
func place(b Breach, l Line) float64 {
	from, to := b.bounds()
	return min(100*(l.At-from)/(to-from), 100-narrowest)
}

// width returns a line's width on a timeline, in hundredths of it.
func width(b Breach, l Line) float64 {
	from, to := b.bounds()
	end := l.Until
	if end == 0 {
		end = l.At
		if l.Who == "ran" {
			end = to
		}
	}
	return max(narrowest, 100*(end-l.At)/(to-from))
}
