package critest

import (
	"context"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Direct returns a connection that makes calls without gRPC. It has no byte stream, and no goroutine while no call is in
// flight, so that thousands of runtimes and their agents fit in one process. The journal, latencies, faults, restarts and
// the caller's ownership of messages are as on a connection of Dial. It needs no Close.
func (r *Runtime) Direct() grpc.ClientConnInterface { return direct{r} }

type direct struct{ *Runtime }

var services = []*grpc.ServiceDesc{&runtimeapi.RuntimeService_ServiceDesc, &runtimeapi.ImageService_ServiceDesc}

// Invoke makes a unary call. As with gRPC, it returns when ctx ends, even if the runtime ignores the end.
func (d direct) Invoke(ctx context.Context, name string, args, reply any, _ ...grpc.CallOption) error {
	handler := unaryHandler(name)
	if handler == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", name)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	var answer any
	done := make(chan error, 1)
	err := d.start(func() {
		var err error
		answer, err = handler(service{Runtime: d.Runtime}, ctx, func(into any) error { return copyMessage(into, args) }, d.unary)
		done <- err
	})
	if err != nil {
		return errAway
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done: // the response came first
		default:
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	if err != nil {
		return err
	}
	return copyMessage(reply, answer)
}

func unaryHandler(name string) grpc.MethodHandler {
	for _, s := range services {
		method, ok := strings.CutPrefix(name, "/"+s.ServiceName+"/")
		for i := 0; ok && i < len(s.Methods); i++ {
			if s.Methods[i].MethodName == method {
				return s.Methods[i].Handler
			}
		}
	}
	return nil
}

func copyMessage(into, from any) error {
	to, ok := into.(proto.Message)
	message, isMessage := from.(proto.Message)
	if !ok || !isMessage {
		return status.Errorf(codes.Internal, "critest: %T and %T are not messages", into, from)
	}
	proto.Merge(to, message)
	return nil
}

// NewStream opens a stream of messages from the runtime, such as the event stream.
func (d direct) NewStream(ctx context.Context, _ *grpc.StreamDesc, name string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	return &directStream{
		runtime: d.Runtime, name: name, ctx: ctx, cancel: cancel,
		header: make(chan struct{}), messages: make(chan any), ended: make(chan struct{}),
	}, nil
}

// A directStream is the client's end of a stream with one request and any number of responses.
type directStream struct {
	runtime *Runtime
	name    string
	ctx     context.Context // ends with the stream
	cancel  context.CancelFunc
	request any

	header   chan struct{} // closed when the runtime has sent its header
	messages chan any
	ended    chan struct{} // closed when the runtime has ended the stream, with err
	err      error
}

func (s *directStream) SendMsg(m any) error {
	s.request = proto.CloneOf(m.(proto.Message))
	return nil
}

// CloseSend starts the call: the request is complete.
func (s *directStream) CloseSend() error {
	for _, service := range services {
		for i := range service.Streams {
			if desc := &service.Streams[i]; s.name == "/"+service.ServiceName+"/"+desc.StreamName {
				return s.begin(desc.Handler)
			}
		}
	}
	s.cancel()
	return status.Errorf(codes.Unimplemented, "unknown method %s", s.name)
}

func (s *directStream) begin(handler grpc.StreamHandler) error {
	err := s.runtime.start(func() {
		s.err = s.runtime.stream(service{Runtime: s.runtime}, &directServerStream{directStream: s}, &grpc.StreamServerInfo{FullMethod: s.name, IsServerStream: true}, handler)
		close(s.ended)
		s.cancel()
	})
	if err != nil {
		s.cancel()
		return errAway
	}
	return nil
}

func (s *directStream) Header() (metadata.MD, error) {
	select {
	case <-s.header:
		return nil, nil
	case <-s.ended:
		return nil, s.result()
	case <-s.ctx.Done():
		return nil, s.result()
	}
}

func (s *directStream) RecvMsg(m any) error {
	select {
	case from := <-s.messages:
		return copyMessage(m, from)
	case <-s.ended:
		return s.result()
	case <-s.ctx.Done():
		return s.result()
	}
}

// result returns why the stream ended.
func (s *directStream) result() error {
	select {
	case <-s.ended:
		if s.err == nil {
			return io.EOF
		}
		return s.err
	default:
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *directStream) Trailer() metadata.MD     { return nil }
func (s *directStream) Context() context.Context { return s.ctx }

// A directServerStream is the runtime's end of a stream.
type directServerStream struct {
	*directStream
	headed bool
}

func (s *directServerStream) SetHeader(metadata.MD) error { return nil }
func (s *directServerStream) SetTrailer(metadata.MD)      {}

func (s *directServerStream) SendHeader(metadata.MD) error {
	if !s.headed {
		s.headed = true
		close(s.header)
	}
	return nil
}

func (s *directServerStream) SendMsg(m any) error {
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	select {
	case s.messages <- m:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

func (s *directServerStream) RecvMsg(m any) error { return copyMessage(m, s.request) }
