package expand_test

import (
	"strings"
	"testing"

	"github.com/podsync/podsync/syncpod/internal/expand"
)

type variable struct{ Name, Value string }

func TestExpand(t *testing.T) {
	lookup := expand.Lookup([]variable{{"A", "old"}, {"A", "a"}, {"B", "$(A)"}, {"EMPTY", ""}, {"x y", "spaced"}, {"A$(B", "odd"}})
	for in, want := range map[string]string{
		"":                "",
		"plain":           "plain",
		"$(A)":            "a",
		"x$(A)y$(A)z":     "xayaz",
		"$(B)":            "$(A)",
		"$(EMPTY)":        "",
		"$(NOPE)":         "$(NOPE)",
		"$()":             "$()",
		"$(x y)":          "spaced",
		"$$(A)":           "$(A)",
		"$$$(A)":          "$a",
		"$$$$(A)":         "$$(A)",
		"$$":              "$",
		"$":               "$",
		"tail$":           "tail$",
		"tail$$":          "tail$",
		"$A":              "$A",
		"${A}":            "${A}",
		"$(":              "$(",
		"$(A":             "$(A",
		"$(A$(B)":         "odd",
		"$((A)":           "$((A)",
		"$(NOPE$(A))":     "$(NOPE$(A))",
		"$(A))":           "a)",
		"\xff$(A)\xff":    "\xffa\xff",
		"$ü$(A)":          "$üa",
		"$(NOPE)$(A)$(A":  "$(NOPE)a$(A",
		"$$(NOPE)$$$(A)$": "$(NOPE)$a$",
	} {
		if got := expand.Expand(in, lookup); got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestExpandWithoutLookup(t *testing.T) {
	if got := expand.Expand("$(A)$$(B)", nil); got != "$(A)$(B)" {
		t.Errorf("%q, want the reference as it is", got)
	}
}

// slowExpand is the syntax said another way: one byte after the other.
func slowExpand(s string, lookup func(string) (string, bool)) string {
	out := ""
	for s != "" {
		closing := strings.Index(s, ")")
		switch {
		case strings.HasPrefix(s, "$$"):
			out, s = out+"$", s[2:]
		case strings.HasPrefix(s, "$(") && closing > 0:
			name := s[2:closing]
			value, ok := lookup(name)
			if !ok {
				value = "$(" + name + ")"
			}
			out, s = out+value, s[closing+1:]
		case strings.HasPrefix(s, "$("):
			out, s = out+"$(", s[2:]
		default:
			out, s = out+s[:1], s[1:]
		}
	}
	return out
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"$(A)", "$$(A)", "$$$(A)", "$(A", "x$", "$($$(A))", "$(A$(B)"} {
		f.Add(s, "A", "value")
	}
	f.Fuzz(func(t *testing.T, s, name, value string) {
		lookup := expand.Lookup([]variable{{Name: name, Value: value}})
		got := expand.Expand(s, lookup)
		if want := slowExpand(s, lookup); got != want {
			t.Errorf("Expand(%q) with %q=%q = %q, want %q", s, name, value, got, want)
		}
		if escaped := strings.ReplaceAll(s, "$", "$$"); expand.Expand(escaped, lookup) != s {
			t.Errorf("Expand(%q) = %q, want what was escaped", escaped, expand.Expand(escaped, lookup))
		}
	})
}

func TestExpandWithoutDollarDoesNotAllocate(t *testing.T) {
	lookup := expand.Lookup[variable](nil)
	if n := testing.AllocsPerRun(100, func() { expand.Expand("/bin/app", lookup) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
