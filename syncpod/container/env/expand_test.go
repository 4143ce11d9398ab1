package env_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/podsync/podsync/syncpod/container/env"
)

type variable struct{ Name, Value string }

func TestExpand(t *testing.T) {
	lookup := env.Lookup([]variable{{"A", "old"}, {"A", "a"}, {"B", "$(A)"}, {"EMPTY", ""}, {"x y", "spaced"}, {"A$(B", "odd"}})
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
		if got := expandAll(in, lookup); got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestExpandWithoutLookup(t *testing.T) {
	if got := expandAll("$(A)$$(B)", nil); got != "$(A)$(B)" {
		t.Errorf("%q, want the reference as it is", got)
	}
}

func expandAll(s string, lookup func(string) (string, bool)) string {
	expanded, ok := env.Expand(s, 1<<30, lookup)
	if !ok {
		return "too long"
	}
	return expanded
}

// An expansion that would be too long is abandoned before it is built.
func TestExpandBuildsNoMoreThanItsLimit(t *testing.T) {
	lookup := env.Lookup([]variable{{"A", strings.Repeat("a", 1<<20)}})
	long := strings.Repeat("$(A)", 1<<20) // a terabyte
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got, ok := env.Expand(long, 1<<20+1, lookup); ok {
		t.Errorf("%d bytes", len(got))
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
	if got, ok := env.Expand("abc", 2, nil); ok || got != "" {
		t.Errorf("Expand returns %q, %t for a text without references that is too long", got, ok)
	}
	if _, ok := env.Expand("$$", -1, nil); ok {
		t.Error("a negative limit takes something")
	}
}

// References without an end are searched for one once, and not once each.
func TestExpandIsLinear(t *testing.T) {
	open := strings.Repeat("$(", 8<<20)
	if got := expandAll(open, nil); got != open {
		t.Errorf("%d bytes, want the %d of the text", len(got), len(open))
	}
}

// slowExpand is another implementation of the syntax: one byte after the other.
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
		lookup := env.Lookup([]variable{{Name: name, Value: value}})
		got := expandAll(s, lookup)
		want := slowExpand(s, lookup)
		if got != want {
			t.Errorf("Expand(%q) with %q=%q = %q, want %q", s, name, value, got, want)
		}
		if escaped := strings.ReplaceAll(s, "$", "$$"); expandAll(escaped, lookup) != s {
			t.Errorf("Expand(%q) = %q, want what was escaped", escaped, expandAll(escaped, lookup))
		}
		if got, ok := env.Expand(s, len(want), lookup); !ok || got != want {
			t.Errorf("Expand(%q) to its length: %q, %t", s, got, ok)
		}
		if got, ok := env.Expand(s, len(want)-1, lookup); ok || got != "" {
			t.Errorf("Expand(%q) to less than its length %d: %q, %t", s, len(want), got, ok)
		}
	})
}

func TestExpandWithoutDollarDoesNotAllocate(t *testing.T) {
	lookup := env.Lookup[variable](nil)
	if n := testing.AllocsPerRun(100, func() { env.Expand("/bin/app", 100, lookup) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
