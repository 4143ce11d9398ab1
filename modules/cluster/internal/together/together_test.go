package together_test

import (
	"context"
	"errors"
	"testing"

	"github.com/podsync/podsync/modules/cluster/internal/together"
)

func untilTold(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRun(t *testing.T) {
	broken := errors.New("broken")
	fails := func(context.Context) error { return broken }
	if err := together.Run(t.Context(), untilTold, fails, untilTold); !errors.Is(err, broken) || errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v alone", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := together.Run(ctx, untilTold, untilTold); err != nil {
		t.Errorf("%v, want no error of functions that end with the context", err)
	}
	own, cancelOwn := context.WithCancel(t.Context())
	cancelOwn()
	if err := together.Run(t.Context(), func(context.Context) error { return own.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the error of a function that ended by itself", err)
	}
}
