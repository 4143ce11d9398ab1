package main

import (
	"slices"
	"testing"
)

func TestParseShapes(t *testing.T) {
	got, err := parseShapes("1,10+3,40+0deaf")
	if want := []shape{{pods: 1}, {pods: 10, inits: 3}, {pods: 40, deaf: true}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := parseShapes(""); err != nil || len(got) != 0 {
		t.Errorf("none: got %v, %v", got, err)
	}
	for _, wrong := range []string{"x", "1+x", "0", "1+-1", "+3", "deaf", "1+0dead"} {
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

// Ratios are computed for each round, because the machine may be slower in one round than in another.
func TestComparison(t *testing.T) {
	var c comparison
	c.add([]float64{1, 3, 2}, []float64{2, 2, 6}, []float64{1}, []float64{1})
	c.add([]float64{10}, []float64{20}, []float64{2}, []float64{3})
	c.add([]float64{1}, []float64{1}, []float64{1}, []float64{2})
	want := " 2.00 | 2.00 | 1.00 | 3.00 | 6.00 | 2.00 | 1.00 | 2.00 | 1.50 | 1.00 | 2.00 | 1.50 |"
	if got := c.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLongestPause(t *testing.T) {
	for _, tt := range []struct {
		times []float64
		want  float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 7}} {
		if got := longestPause(tt.times); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.times, got, tt.want)
		}
	}
}
