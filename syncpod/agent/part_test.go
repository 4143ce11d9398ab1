package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/syncpod/loop"
)

// awayHost is a Host whose runtime is unavailable at first.
type awayHost struct {
	loop.Host
	back time.Time
}

func (h awayHost) Available() error {
	if time.Now().Before(h.back) {
		return errors.New("unavailable")
	}
	return nil
}

// No part asks a runtime that is unavailable.
func TestPartsRestWhileTheRuntimeIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
		defer cancel()
		began, calls := time.Now(), 0
		every(ctx, awayHost{back: began.Add(4*time.Minute + time.Second)}, time.Minute, func() {
			if calls++; time.Since(began) < 5*time.Minute {
				t.Errorf("called after %v", time.Since(began))
			}
		})
		if calls != 6 {
			t.Errorf("%d calls, want 6", calls)
		}
	})
}
