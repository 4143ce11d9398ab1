// Package deadline tells whether the time of a call is over.
package deadline

import (
	"context"
	"time"
)

// Over reports whether ctx has ended, or is just about to: the runtime knows its deadline,
// too, and may be the first to say that it is over.
func Over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}
