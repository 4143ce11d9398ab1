// Package together runs functions side by side: what one program or part is made of.
package together

import (
	"context"
	"errors"
	"sync"
)

// Run runs functions until one of them fails or ctx ends, and returns when all have returned.
// The error joins theirs, without those that say that they were told to end.
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
