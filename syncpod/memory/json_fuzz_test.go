package memory_test

import (
	"encoding/json"
	"testing"

	"github.com/podsync/podsync/syncpod/memory"
)

// Any content of a record file results in an error, or in a record that is unchanged after a write and a read.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{"{}", `{"version":1}`, `{"version":2,"deadline":"2026-01-01T00:00:00Z"}`, `{"version":1,"nextAttempts":{"app":4294967295},"exited":{"app":{"exitCode":-1}}}`, "null", "[]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r, again memory.Record
		if r.UnmarshalJSON(text) != nil {
			return
		}
		once, err := json.Marshal(r)
		if err != nil {
			return // a time beyond what JSON can say
		}
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("%s became %s: %v", text, once, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(once) {
			t.Errorf("%s became %s and then %s, %v", text, once, twice, err)
		}
	})
}
