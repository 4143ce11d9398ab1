package status_test

import (
	"encoding/json"
	"testing"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

const recorded = "../../internal/rig/conformance/testdata/status.jsonl.gz"

// An op is one status. BenchmarkStatus/vectors computes the statuses of recorded pods in random states, several in a
// row for each state, which shows the cost of the computation. BenchmarkStatus/cold computes each once, so that every
// pod has to be loaded from memory first. BenchmarkStatus/settled computes the status of a pod that does not change.
func BenchmarkStatus(b *testing.B) {
	b.Run("vectors", func(b *testing.B) { benchmarkRecorded(b, 16) })
	b.Run("cold", func(b *testing.B) { benchmarkRecorded(b, 1) })
	b.Run("settled", func(b *testing.B) {
		in := settled()
		b.ReportAllocs()
		for b.Loop() {
			apistatus.GeneratePodStatus(in)
		}
	})
}

func benchmarkRecorded(b *testing.B, times int) {
	inputs := recordedInputs(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		apistatus.GeneratePodStatus(inputs[i/times])
		if i++; i == times*len(inputs) {
			i = 0
		}
	}
}

func recordedInputs(tb testing.TB) []apistatus.Input {
	tb.Helper()
	var inputs []apistatus.Input
	must.Do(tb, record.EachLine(recorded, func(line []byte) error {
		var c record.Status
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		in, err := c.Input()
		inputs = append(inputs, in)
		return err
	}))
	return inputs
}
