// Package deadline reports whether a call's deadline has passed.
package deadline

import (
	"context"
	"time"
)

// Over reports whether ctx has ended or is about to end: the runtime has the same deadline, and may report it
// before ctx ends.
func Over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}
