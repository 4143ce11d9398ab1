package actions_test

import (
	"testing"

	"github.com/podsync/podsync/actions"
)

func TestFailedProbe(t *testing.T) {
	for why := range actions.EndsWithPod + 1 {
		want := why == actions.LivenessFailed || why == actions.StartupFailed
		if got := why.FailedProbe(); got != want {
			t.Errorf("%q: %t, want %t", why, got, want)
		}
	}
}
