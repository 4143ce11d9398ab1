package critest

import (
	"context"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/internal/inject"
)

// Inject injects a fault of calls. If several faults match a call, only the earliest that is not used
// up applies.
func (r *Runtime) Inject(f faults.Fault) (faults.Injected, error) {
	return r.faults.Inject(f, known)
}

// InjectEvent injects a fault of events, for all streams. If several faults match an event, only the
// earliest that is not used up applies.
func (r *Runtime) InjectEvent(f faults.Event) (faults.Injected, error) {
	return r.events.faults.Inject(f)
}

// SetRandom makes the runtime unreliable; the zero Random makes it reliable again. Injected faults
// take precedence.
func (r *Runtime) SetRandom(c faults.Random) error {
	return inject.SetRandom(c, &r.faults, &r.events.faults, known)
}

// DisconnectEvents breaks all event streams with an error, for example
// status.Error(codes.Unavailable, "transport is closing").
func (r *Runtime) DisconnectEvents(err error) {
	if err == nil {
		err = errAway
	}
	r.events.disconnect(err)
}

type faultKey struct{}

func withFault(ctx context.Context, f *faults.Fault) context.Context {
	return context.WithValue(ctx, faultKey{}, f)
}

func faultOf(ctx context.Context) *faults.Fault {
	f, _ := ctx.Value(faultKey{}).(*faults.Fault)
	return f
}

// midway applies a fault to a handler that has done half of its work.
func midway(ctx context.Context) error {
	if f := faultOf(ctx); f != nil && f.When == faults.Midway {
		return inject.Act(ctx, f)
	}
	return nil
}
