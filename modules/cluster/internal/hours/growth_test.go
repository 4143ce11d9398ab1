package hours

import (
	"slices"
	"testing"
)

func TestGrowth(t *testing.T) {
	flat := []float64{10, 30, 50, 51, 50, 49, 51, 52, 50, 90}
	for _, test := range []struct {
		name    string
		samples []float64
		medians [3]float64
		want    string
	}{
		{"caches fill and a single peak", flat, [3]float64{30, 50, 52}, ""},
		{"as much as the slack", []float64{0, 0, 0, 10, 10, 10, 12, 12, 12}, [3]float64{0, 10, 12}, ""},
		{"more than the slack", []float64{0, 0, 0, 10, 10, 10, 13, 13, 13}, [3]float64{0, 10, 13}, "x grows from 10.0 in the second third of the time to 13.0 in the last, by more than 2.0"},
		{"less", []float64{9, 9, 9, 10, 10, 10, 5, 5, 5}, [3]float64{9, 10, 5}, ""},
		{"too few", make([]float64, 8), [3]float64{}, "x: 8 samples are too few"},
	} {
		before := slices.Clone(test.samples)
		got := ""
		medians, err := Growth("x", test.samples, 2)
		if err != nil {
			got = err.Error()
		}
		if got != test.want || medians != test.medians || !slices.Equal(before, test.samples) {
			t.Errorf("%s: %v, %q, want %v, %q", test.name, medians, got, test.medians, test.want)
		}
	}
}
