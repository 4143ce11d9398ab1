package apistatus_test

import (
	"encoding/json"
	"testing"

	"github.com/podsync/podsync/internal/conformance/record"
	"github.com/podsync/podsync/syncpod/apistatus"
)

const recorded = "../../internal/conformance/testdata/status.jsonl.gz"

// BenchmarkStatus/vectors makes the statuses of recorded pods in random states,
// an op a status; BenchmarkStatus/settled that of a pod in which nothing happens.
func BenchmarkStatus(b *testing.B) {
	b.Run("vectors", func(b *testing.B) {
		inputs := recordedInputs(b)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			apistatus.Compute(inputs[i])
			if i++; i == len(inputs) {
				i = 0
			}
		}
	})
	b.Run("settled", func(b *testing.B) {
		in := settled()
		b.ReportAllocs()
		for b.Loop() {
			apistatus.Compute(in)
		}
	})
}

func recordedInputs(tb testing.TB) []apistatus.Input {
	tb.Helper()
	var inputs []apistatus.Input
	err := record.EachLine(recorded, func(line []byte) error {
		var c record.Status
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		in, err := c.Input()
		inputs = append(inputs, in)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return inputs
}
