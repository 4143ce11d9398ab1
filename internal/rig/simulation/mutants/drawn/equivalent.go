package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
)

//go:embed equivalent.txt
var list string

// equivalent is a mutant that no test can notice.
type equivalent struct {
	path, function, says string
	// nth is its number among the mutants of a function with the same description, 0 if it is the only one.
	nth    int
	reason string
	// mutant is the described mutant, nil if its file is not among the sources.
	mutant *mutant
}

func (e *equivalent) String() string {
	return fmt.Sprintf("%s %s: %s: %s", e.path, e.function, e.says, e.reason)
}

// equivalents reads the list. Each paragraph has a reason, and below it, after a tab, each mutant to which the reason
// applies: the file, the function, and the description of the mutant. A description may end in
// an ellipsis, and ends in #2 if it is the second such place in the function.
func equivalents(list string) (all []*equivalent, err error) {
	var reason []string
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		described, is := strings.CutPrefix(line, "\t")
		switch {
		case line == "":
			reason = nil
		case !is:
			reason = append(reason, line)
		default:
			place, says, found := strings.Cut(described, ": ")
			path, function, _ := strings.Cut(place, " ")
			if !found || len(reason) == 0 {
				return nil, fmt.Errorf("an equivalent mutant lacks its place, what it does or the reason: %s", described)
			}
			e := &equivalent{path: path, function: function, says: says, reason: strings.Join(reason, " ")}
			if _, err := fmt.Sscanf(says[strings.LastIndex(says, " ")+1:], "#%d", &e.nth); err == nil {
				e.says = says[:strings.LastIndex(says, " ")]
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// fits reports whether e describes the mutant.
func (e *equivalent) fits(m *mutant) bool {
	if begin, cut := strings.CutSuffix(e.says, "…"); cut {
		return m.function == e.function && strings.HasPrefix(m.says, begin)
	}
	return m.function == e.function && m.says == e.says
}

// find finds the mutant of each entry whose file is among the sources. An entry that fits no
// place, or several, is an error.
func find(all []*equivalent, sources []*source) error {
	byPath := map[string]*source{}
	for _, s := range sources {
		byPath[s.path] = s
	}
	var errs []error
	for _, e := range all {
		s := byPath[e.path]
		if s == nil {
			continue
		}
		var fit []*mutant
		for _, m := range s.places {
			if e.fits(m) {
				fit = append(fit, m)
			}
		}
		switch {
		case e.nth == 0 && len(fit) == 1:
			e.mutant = fit[0]
		case e.nth > 0 && e.nth <= len(fit) && len(fit) > 1:
			e.mutant = fit[e.nth-1]
		default:
			errs = append(errs, fmt.Errorf("an equivalent mutant fits %d places, want 1: %v", len(fit), e))
		}
	}
	return errors.Join(errs...)
}
