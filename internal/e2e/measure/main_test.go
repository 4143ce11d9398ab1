package main

import (
	"slices"
	"testing"
)

func TestParseShapes(t *testing.T) {
	got, err := parseShapes("1,10+3,40+0")
	if want := []shape{{1, 0}, {10, 3}, {40, 0}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := parseShapes(""); err != nil || len(got) != 0 {
		t.Errorf("none: got %v, %v", got, err)
	}
	for _, wrong := range []string{"x", "1+x", "0", "1+-1", "+3"} {
		if got, err := parseShapes(wrong); err == nil {
			t.Errorf("%q: got %v, want an error", wrong, got)
		}
	}
}

func TestMedian(t *testing.T) {
	values := []float64{3, 1, 2}
	if got := median(values); got != 2 || values[0] != 3 {
		t.Errorf("median %v, values then %v", got, values)
	}
}
