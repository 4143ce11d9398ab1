package main

import (
	"strings"
	"testing"
)

// Each entry of the list is a mutant that can be drawn, and has a reason.
func TestEquivalentsAreOfThisCode(t *testing.T) {
	sources, err := readAll("../../../../..", defaultPatterns)
	if err != nil {
		t.Fatal(err)
	}
	known, err := equivalents(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := find(known, sources); err != nil {
		t.Error(err)
	}
	for _, e := range known {
		if e.mutant == nil {
			t.Errorf("of a file that mutants are not drawn from: %v", e)
		}
	}
}

// An entry that fits no place is refused, and so is one that fits several or has no reason.
func TestEquivalents(t *testing.T) {
	s := sourceOf(t, "package p\n\nfunc f(a bool) {\n\tif a {\n\t\tf(a)\n\t}\n\tif a {\n\t}\n}\n")
	for _, test := range []struct{ list, refused string }{
		{"A reason,\nof two lines.\n\tp.go f: deleted: f(a)\n", ""},
		{"A reason,\nof two lines.\n\tp.go f: deleted: f…\n", ""},
		{"\tp.go f: deleted: f(a)\n", "the reason"},
		{"A reason.\n\n\tp.go f: deleted: f(a)\n", "the reason"},
		{"A reason.\n\tp.go f\n", "lacks"},
		{"A reason.\n\tp.go f: deleted: f(b)\n", "fits 0 places"},
		{"A reason.\n\tp.go g: deleted: f(a)\n", "fits 0 places"},
		{"A reason.\n\tp.go f: true for a\n", "fits 2 places"},
		{"A reason.\n\tp.go f: deleted: …\n", "fits 3 places"},
		{"A reason,\nof two lines.\n\tp.go f: true for a #2\n", ""},
		{"A reason.\n\tp.go f: true for a #3\n", "fits 2 places"},
		{"A reason.\n\tp.go f: deleted: f(a) #1\n", "fits 1 places"},
		{"", ""},
	} {
		known, err := equivalents(test.list)
		if err == nil {
			err = find(known, []*source{s})
		}
		if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%q: %v, want %q", test.list, err, test.refused)
		}
		if err == nil && len(known) > 0 && (known[0].mutant == nil || known[0].reason != "A reason, of two lines." || len(places([]*source{s}, known)) != len(s.places)-1) {
			t.Errorf("%q: %v, found %v", test.list, known[0], known[0].mutant)
		}
	}
}
