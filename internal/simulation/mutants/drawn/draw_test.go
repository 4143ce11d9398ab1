package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const example = `package p

func f(a, b bool) int {
	n := 0
	if a && b {
		n++
		n = 2 * n
	}
	switch {
	case a:
		return 1
	}
	return n
}
`

// All that can be done to a file is found, and each change is made where it says.
func TestPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, m := range s.places {
		made[m.says] = string(m.apply())
	}
	for says, has := range map[string]string{
		"true for a && b":            "if (true || (a && b)) {",
		"false for a && b":           "if (false && (a && b)) {",
		"true for b":                 "if a && (true || (b)) {",
		"false for a":                "case (false && (a)):",
		"deleted: n++":               "{}\n\t\tn = 2 * n",
		"swapped: n++ and n = 2 * n": "n = 2 * n\n\t\tn++",
	} {
		if !strings.Contains(made[says], has) {
			t.Errorf("%q makes\n%s\nwant %q in it", says, made[says], has)
		}
	}
	if len(s.places) != 12 {
		t.Errorf("%d places: %v, want 12", len(s.places), s.places)
	}
}

// A seed draws the same mutants each time, another one others.
func TestDraw(t *testing.T) {
	s := &source{}
	for line := range 100 {
		s.places = append(s.places, mutant{source: s, line: line})
	}
	lines := func(seed uint64) (all []int) {
		for _, m := range draw([]*source{s}, seed) {
			all = append(all, m.line)
		}
		return all
	}
	if !slices.Equal(lines(1), lines(1)) || slices.Equal(lines(1), lines(2)) || len(lines(1)) != 100 {
		t.Error("the draw does not follow the seed")
	}
}
