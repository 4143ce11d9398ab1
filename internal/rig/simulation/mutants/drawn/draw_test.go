package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const example = `package p

type T struct{}

func (*T) f(a, b bool) int {
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

// sourceOf is a file of a text.
func sourceOf(t *testing.T, text string) *source {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, "p.go")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := read(root, path, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// All that can be done to a file is found, each with a number of its own and the name of its function.
func TestPlaces(t *testing.T) {
	s := sourceOf(t, example)
	said := map[string]bool{}
	for i, m := range s.places {
		if said[m.says] = true; m.number != i+1 || m.path != "p.go" || m.function != "T.f" {
			t.Errorf("%v has the number %d, and is in %s of %s", m, m.number, m.function, m.path)
		}
	}
	for _, says := range []string{
		"true for a && b", "false for a && b", "true for a", "false for a", "true for b", "false for b",
		"deleted: n++", "deleted: n = 2 * n", "swapped: n++ and n = 2 * n",
		"deleted: if a && b { n++ n = 2 * n }",
	} {
		if !said[says] {
			t.Errorf("%q is not found", says)
		}
	}
	if len(s.places) != 12 {
		t.Errorf("%d places: %v, want 12", len(s.places), s.places)
	}
}

// A seed draws the same mutants each time, another one others.
func TestDraw(t *testing.T) {
	var all []*mutant
	for number := range 100 {
		all = append(all, &mutant{number: number})
	}
	if !slices.Equal(draw(all, 1), draw(all, 1)) || slices.Equal(draw(all, 1), draw(all, 2)) || len(draw(all, 1)) != 100 {
		t.Error("the draw does not follow the seed")
	}
}
