package hours

import (
	"fmt"
	"slices"
)

// Growth returns the medians of the three thirds of the samples, and an error if the samples of a resource grow: the last third's
// median is larger than the second third's median by more than slack. The first third is ignored, because caches fill in it.
// Fewer than nine samples are an error.
func Growth(name string, samples []float64, slack float64) (medians [3]float64, err error) {
	third := len(samples) / 3
	if third < 3 {
		return medians, fmt.Errorf("%s: %d samples are too few", name, len(samples))
	}
	medians = [3]float64{median(samples[:third]), median(samples[third : 2*third]), median(samples[2*third:])}
	if second, last := medians[1], medians[2]; last > second+slack {
		err = fmt.Errorf("%s grows from %.1f in the second third of the time to %.1f in the last, by more than %.1f", name, second, last, slack)
	}
	return medians, err
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[len(sorted)/2]
}
