package podworkers

import (
	"encoding/json"
	"testing"
)

func TestPhasesAreWords(t *testing.T) {
	text, err := json.Marshal([]Phase{Syncing, Terminating, Terminated, Finished})
	if want := `["syncing","terminating","terminated","finished"]`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}
