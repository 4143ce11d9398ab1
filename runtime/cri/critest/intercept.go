package critest

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/internal/inject"
)

// errAway is the error of calls while the runtime is down, and of calls in flight when it went down. It
// is a broken connection's error.
var errAway = status.Error(codes.Unavailable, "error reading from server: EOF")

// unary handles every call except event streams, in this order: journal, downtime, latency, fault
// before, the call itself, fault after, journal.
func (r *Runtime) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	msg, ok := req.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "critest: %T is not a message", req)
	}
	call := r.begin(ctx, methodOf(info.FullMethod), msg)
	f, lag := r.faults.Strike(&call.Call)
	resp, err := r.perform(ctx, lag+r.cfg.Latency[call.Method], f, hasMidway(call.Method), func(ctx context.Context) (any, error) { return handle(ctx, req) })
	if err == nil {
		err = ctx.Err() // the caller disconnected before a deaf call ended, and gets no response
	}
	if err != nil {
		resp, err = nil, asStatus(err)
		time.Sleep(lag) // calls ended by a restart do not all end at the same instant
	}
	r.end(call, resp, f, err)
	return resp, err
}

func (r *Runtime) perform(ctx context.Context, latency time.Duration, f *faults.Fault, midways bool, handle func(context.Context) (any, error)) (any, error) {
	ctx, done := r.bounded(ctx, f != nil && f.IgnoreCancel)
	defer done()
	if r.isAway() {
		return nil, errAway
	}
	if err := inject.Pause(ctx, latency); err != nil {
		return nil, r.interrupted(ctx, err)
	}
	if f == nil {
		resp, err := handle(ctx)
		return resp, r.interrupted(ctx, err)
	}
	when := f.When
	if when == faults.Midway && !midways {
		when = faults.Before
	}
	if when == faults.Before {
		if err := inject.Act(ctx, f); err != nil {
			return nil, r.interrupted(ctx, err)
		}
	}
	resp, err := handle(withFault(ctx, f))
	if err == nil && when == faults.After {
		err = inject.Act(ctx, f)
	}
	return resp, r.interrupted(ctx, err)
}

// bounded returns a context that also ends with the runtime's process. A deaf one does not end with the
// caller's.
func (r *Runtime) bounded(ctx context.Context, deaf bool) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, callerKey{}, ctx)
	if deaf {
		ctx = context.WithoutCancel(ctx)
	}
	r.mu.Lock()
	epoch := r.epoch
	r.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(epoch, func() { cancel(errAway) })
	return ctx, func() { stop(); cancel(nil) }
}

type callerKey struct{}

// callerHasGone reports whether a deaf call's caller has disconnected.
func callerHasGone(ctx context.Context) bool {
	caller, ok := ctx.Value(callerKey{}).(context.Context)
	return ok && caller.Err() != nil
}

// interrupted replaces an error with errAway if the runtime's end is its cause.
func (r *Runtime) interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errAway) {
		return errAway
	}
	return err
}

func (r *Runtime) isAway() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.away)
}

// asStatus gives an error the code that a client receives.
func asStatus(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		if _, ok := status.FromError(err); !ok {
			return status.FromContextError(err).Err()
		}
	}
	return status.Convert(err).Err()
}

// stream handles event streams. The journal has them from their beginning, and faults of
// GetContainerEvents apply before they begin.
func (r *Runtime) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	call := r.begin(ss.Context(), methodOf(info.FullMethod), &runtimeapi.GetEventsRequest{})
	f, _ := r.faults.Strike(&call.Call)
	_, err := r.perform(ss.Context(), r.cfg.Latency[call.Method], f, false, func(ctx context.Context) (any, error) {
		return nil, handle(srv, boundedStream{ss, ctx})
	})
	if err != nil {
		err = asStatus(err)
	}
	r.end(call, nil, f, err)
	return err
}

type boundedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s boundedStream) Context() context.Context { return s.ctx }
