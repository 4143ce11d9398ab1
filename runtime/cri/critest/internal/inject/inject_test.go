package inject

import (
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// A Runtime drops faults that are used up or removed, so that they do not accumulate.
func TestUsedFaultsAreDropped(t *testing.T) {
	var calls Calls
	var events Events
	known := func(journal.Method) bool { return true }
	for range 3 {
		_, err := calls.Inject(faults.Fault{Delay: 1}, known)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := events.Inject(faults.Event{Action: faults.Drop}); err != nil {
			t.Fatal(err)
		}
		if f, _ := calls.Strike(&journal.Call{Method: "Version"}); f == nil {
			t.Error("no fault applies to a call")
		}
		if left := events.Apply(Event{}, Subject{PodUID: "u"}); len(left) != 0 {
			t.Errorf("%d events, want none", len(left))
		}
	}
	removed, err := calls.Inject(faults.Fault{Delay: 1, Times: faults.Always}, known)
	if err != nil {
		t.Fatal(err)
	}
	removed.Remove()
	if len(calls.injected)+len(events.injected) != 0 {
		t.Errorf("left: %d faults of calls, %d of events", len(calls.injected), len(events.injected))
	}
}
