package deadline_test

import (
	"context"
	"testing"
	"time"

	"github.com/podsync/podsync/internal/deadline"
)

// late is a context whose deadline has passed, and which has not ended yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestOver(t *testing.T) {
	background := context.Background()
	cancelled, cancel := context.WithCancel(background)
	cancel()
	soon, end := context.WithTimeout(background, time.Hour)
	defer end()
	for name, tt := range map[string]struct {
		ctx  context.Context
		want bool
	}{
		"without a deadline":                     {background, false},
		"before its deadline":                    {soon, false},
		"cancelled":                              {cancelled, true},
		"deadline passed, context not ended yet": {late{background}, true},
	} {
		if got := deadline.Over(tt.ctx); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
