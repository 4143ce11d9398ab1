package hours

import (
	"fmt"
	"slices"
)

// Growth returns an error if the samples of a resource grow: the median of the last third is larger than the median of
// the second third by more than slack. The first third is ignored, because caches fill in it. Fewer than nine samples are
// an error.
func Growth(name string, samples []float64, slack float64) error {
	third := len(samples) / 3
	if third < 3 {
		return fmt.Errorf("%s: %d samples are too few", name, len(samples))
	}
	second, last := median(samples[third:2*third]), median(samples[2*third:])
	if last > second+slack {
		return fmt.Errorf("%s grows from %.1f in the second third of the time to %.1f in the last, by more than %.1f", name, second, last, slack)
	}
	return nil
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[len(sorted)/2]
}
