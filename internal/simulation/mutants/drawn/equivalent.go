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
	reason               string
	// mutant is the one that it describes, nil if its file is not among the sources.
	mutant *mutant
}

func (e *equivalent) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", e.path, e.function, e.says, e.reason)
}

// equivalents reads the list: paragraphs, the first line with the file and the function, the
// second with what the mutant does, and the rest with the reason.
func equivalents(list string) (all []*equivalent, err error) {
	if list = strings.TrimSpace(list); list == "" {
		return nil, nil
	}
	for _, paragraph := range strings.Split(list, "\n\n") {
		lines := strings.SplitN(paragraph, "\n", 3)
		if len(lines) < 3 {
			return nil, fmt.Errorf("an equivalent mutant has a line with its file and function, one that says what it does, and a reason:\n%s", paragraph)
		}
		path, function, _ := strings.Cut(lines[0], " ")
		all = append(all, &equivalent{path: path, function: function, says: lines[1], reason: strings.ReplaceAll(lines[2], "\n", " ")})
	}
	return all, nil
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
		fit := 0
		for _, m := range s.places {
			if m.function == e.function && m.says == e.says {
				e.mutant = m
				fit++
			}
		}
		if fit != 1 {
			errs = append(errs, fmt.Errorf("an equivalent mutant fits %d places, want 1: %v", fit, e))
		}
	}
	return errors.Join(errs...)
}
