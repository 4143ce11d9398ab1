package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// outcome is how podsync did on one recorded case. A case with neither a
// deviation nor a difference agrees.
type outcome struct {
	// name is the case's own.
	name string
	// deviation names the rule by which podsync decides otherwise on purpose.
	deviation string
	// diff shows what differs from the record, readable side by side.
	diff string
}

// tally counts outcomes, and prints the first differences immediately.
type tally struct {
	kind                   string
	out                    io.Writer
	agree, deviate, differ int
	deviations             map[string]int
}

// printedDifferences limits the differences that a run prints.
const printedDifferences = 10

func (t *tally) add(o outcome, err error) error {
	switch {
	case err != nil:
		return err
	case o.diff != "":
		t.differ++
		if t.differ <= printedDifferences {
			fmt.Fprintf(t.out, "%s %s differs\n%s\n", t.kind, o.name, o.diff)
		}
	case o.deviation != "":
		t.deviate++
		if t.deviations == nil {
			t.deviations = map[string]int{}
		}
		t.deviations[o.deviation]++
	default:
		t.agree++
	}
	return nil
}

func (t *tally) print() {
	for _, rule := range slices.Sorted(maps.Keys(t.deviations)) {
		fmt.Fprintf(t.out, "%6d deviate by %s\n", t.deviations[rule], rule)
	}
	fmt.Fprintf(t.out, "%s: %d vectors, %d agree, %d deviate on purpose, %d differ\n",
		t.kind, t.agree+t.deviate+t.differ, t.agree, t.deviate, t.differ)
}

// row is one compared field of a recorded decision.
type row struct {
	field     string
	want, got string
}

// sideBySide prints the rows that differ, with the record and the decision next to each other. It
// returns "" if no row differs.
func sideBySide(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		if r.want != r.got {
			fmt.Fprintf(&b, "  %-28s kubelet: %-40s podsync: %s\n", r.field, orNothing(r.want), orNothing(r.got))
		}
	}
	return b.String()
}

func orNothing(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// keys returns the keys of both maps in order.
func keys[K cmp.Ordered, A, B any](a map[K]A, b map[K]B) []K {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
