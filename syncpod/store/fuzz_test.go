package store_test

import (
	"encoding/json"
	"testing"

	"github.com/podsync/podsync/syncpod/store"
)

// Whatever a file of a status holds, it is an error or a status that can be written and read again.
func FuzzStoredStatus(f *testing.F) {
	for _, text := range []string{"{}", `{"uid":"u","status":{"phase":"Running"},"runtime":{"sandboxes":[{"id":"a"}],"containers":[{}]}}`, `{"runtime":7}`, "null", `{"status":{"containerStatuses":[{"restartCount":-1}]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s, again store.Status
		if json.Unmarshal(text, &s) != nil {
			return
		}
		once, err := json.Marshal(s)
		if err != nil {
			return // JSON cannot express this time
		}
		if err := json.Unmarshal(once, &again); err != nil {
			t.Errorf("%s became %s: %v", text, once, err)
		}
	})
}
