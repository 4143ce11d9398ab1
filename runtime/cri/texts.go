package cri

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/foreign"
)

// A boundedConn bounds the error texts from all calls, so that no caller keeps or prints what a runtime, or a
// registry or container behind it, has written without end.
type boundedConn struct{ conn grpc.ClientConnInterface }

func (c boundedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return boundText(c.conn.Invoke(ctx, method, args, reply, opts...))
}

func (c boundedConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, boundText(err)
	}
	return boundedStream{stream}, nil
}

type boundedStream struct{ grpc.ClientStream }

func (s boundedStream) SendMsg(m any) error { return boundText(s.ClientStream.SendMsg(m)) }
func (s boundedStream) RecvMsg(m any) error { return boundText(s.ClientStream.RecvMsg(m)) }
func (s boundedStream) CloseSend() error    { return boundText(s.ClientStream.CloseSend()) }

// boundText returns err, or an error with the same code with a bounded text. That one has no details, because they
// have any size, and CRI uses none.
//
// An error that has a class keeps it, and its holder.
func boundText(err error) error {
	var class Class
	if errors.As(err, &class) {
		return boundClassified(err, class)
	}
	if e, ok := err.(grpcError); ok {
		s := e.GRPCStatus()
		if text := foreign.Line(s.Message()); text != s.Message() || len(s.Proto().GetDetails()) > 0 {
			return status.Error(s.Code(), text)
		}
		return err
	}
	if s, ok := status.FromError(err); ok && err != nil { // it wraps one
		if text := foreign.Line(err.Error()); text != err.Error() {
			return status.Error(s.Code(), text)
		}
		return err
	}
	return foreign.Error(err)
}

func boundClassified(err error, class Class) error {
	var holder string
	if e := (*Error)(nil); errors.As(err, &e) {
		holder = e.Holder
	}
	if text := err.Error(); foreign.Line(text) == text && foreign.Word(holder) == holder {
		return err
	}
	return &Error{Class: class, Holder: foreign.Word(holder), Err: foreign.Error(err)}
}

type grpcError interface{ GRPCStatus() *status.Status }
