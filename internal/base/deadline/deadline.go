// Package deadline reports whether the deadline of a call has passed.
package deadline

import (
	"context"
	"time"
)

// Over reports whether ctx has ended or is just about to: the runtime knows the deadline too, and
// may be the first to report it.
func Over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}
