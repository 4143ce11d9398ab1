// Package together runs the parts of a program concurrently.
package together

import (
	"context"
	"errors"
	"sync"
)

// Run runs functions until one of them fails or ctx ends, and returns when all have returned. The
// error joins their errors, except context.Canceled after the end.
func Run(ctx context.Context, run ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(run))
	var wg sync.WaitGroup
	for i, f := range run {
		wg.Go(func() {
			err := f(ctx)
			if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return
			}
			errs[i] = err
			cancel()
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
