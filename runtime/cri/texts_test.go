package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/foreign"
)

// failing is a connection whose calls and streams fail with an error.
type failing struct{ err error }

func (f failing) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return f.err }

func (f failing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return failingStream{err: f.err}, nil
}

type failingStream struct {
	grpc.ClientStream
	err error
}

func (s failingStream) SendMsg(any) error { return nil }
func (s failingStream) RecvMsg(any) error { return s.err }
func (s failingStream) CloseSend() error  { return nil }

// calls makes some calls, and returns their errors.
func calls(ctx context.Context, c *Client) map[string]error {
	errs := map[string]error{}
	_, errs["CreateContainer"] = c.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{})
	_, errs["PullImage"] = c.PullImage(ctx, &runtimeapi.PullImageRequest{})
	_, errs["ListImages"] = c.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	stream, err := c.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	errs["GetContainerEvents"] = err
	return errs
}

func TestErrorsOfTheRuntimeAreBounded(t *testing.T) {
	long := "exec /bin/app" + strings.Repeat("x", 1<<20) + ": no such file\x1b[2J"
	for call, err := range calls(t.Context(), NewClient(failing{status.Error(codes.NotFound, long)})) {
		if got := err.Error(); len(got) > foreign.Max+100 || !strings.HasSuffix(got, `: no such file\x1b[2J`) || !strings.Contains(got, "exec /bin/app") {
			t.Errorf("%s: %d bytes: %.100s", call, len(got), got)
		}
		if !errors.Is(Classify(err), ErrNotFound) || len(Classify(err).Error()) > foreign.Max+100 {
			t.Errorf("%s: the class of %.100v", call, Classify(err))
		}
	}
	for call, err := range calls(t.Context(), NewClient(failing{status.Error(codes.NotFound, "short")})) {
		if err.Error() != "rpc error: code = NotFound desc = short" {
			t.Errorf("%s: %v", call, err)
		}
	}
	for call, err := range calls(t.Context(), NewClient(failing{io.EOF})) {
		if err != io.EOF {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestErrorsOfAnyImplementationAreBounded: an implementation without gRPC has errors of any kind and length.
func TestErrorsOfAnyImplementationAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20) + "\x1b[2J"
	for name, tt := range map[string]struct {
		err  error
		also error
	}{
		"status":      {status.Error(codes.NotFound, long), ErrNotFound},
		"classified":  {&Error{Class: ErrNameReserved, Holder: long, Err: errors.New(long)}, ErrNameReserved},
		"wrapped":     {fmt.Errorf("%s: %w", long, &Error{Class: ErrInvalid, Err: status.Error(codes.Unknown, "short")}), ErrInvalid},
		"a holder":    {&Error{Class: ErrNameReserved, Holder: long, Err: errors.New("reserved")}, ErrNameReserved},
		"canceled":    {fmt.Errorf("%s: %w", long, context.Canceled), context.Canceled},
		"unsupported": {fmt.Errorf("%s: %w", long, errors.ErrUnsupported), errors.ErrUnsupported},
	} {
		f := failing{tt.err}
		for call, err := range calls(t.Context(), New(runtimeapi.NewRuntimeServiceClient(f), runtimeapi.NewImageServiceClient(f))) {
			var e *Error
			if !errors.Is(Classify(err), tt.also) || len(err.Error()) > foreign.Max+100 || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%s: %s: %.100q is not %v, or not bounded", name, call, err, tt.also)
			}
			if errors.As(err, &e) && len(e.Holder) > foreign.MaxWord {
				t.Errorf("%s: %s: the name of a holder has %d bytes", name, call, len(e.Holder))
			}
		}
	}
	f := failing{io.EOF}
	for call, err := range calls(t.Context(), New(runtimeapi.NewRuntimeServiceClient(f), runtimeapi.NewImageServiceClient(f))) {
		if err != io.EOF {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestEachCallOfAnyImplementationIsWrapped: also calls that later versions of cri-api add have errors with bounded texts.
func TestEachCallOfAnyImplementationIsWrapped(t *testing.T) {
	f := failing{status.Error(codes.NotFound, strings.Repeat("x", 1<<20))}
	c := New(runtimeapi.NewRuntimeServiceClient(f), runtimeapi.NewImageServiceClient(f))
	for service, api := range map[any]reflect.Type{
		c.RuntimeServiceClient: reflect.TypeFor[runtimeapi.RuntimeServiceClient](),
		c.ImageServiceClient:   reflect.TypeFor[runtimeapi.ImageServiceClient](),
	} {
		for i := range api.NumMethod() {
			method := api.Method(i)
			out := reflect.ValueOf(service).MethodByName(method.Name).Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.New(method.Type.In(1).Elem())})
			if method.Type.Out(0).Kind() == reflect.Interface && out[1].IsNil() {
				out = out[0].MethodByName("Recv").Call(nil)
			}
			if err, _ := out[1].Interface().(error); err == nil || len(err.Error()) > foreign.Max+100 {
				t.Errorf("%s: %.100v", method.Name, err)
			}
		}
	}
}

// Clients that NewClient did not make have errors of any length.
func TestClassifiedErrorsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	detailed := must.Get(status.New(codes.NotFound, "short").WithDetails(wrapperspb.String(long)))(t)
	for name, err := range map[string]error{
		"plain":    status.Error(codes.NotFound, long),
		"wrapped":  fmt.Errorf("%s: %w", long, status.Error(codes.NotFound, "short")),
		"detailed": detailed.Err(),
	} {
		classified := Classify(err)
		if s, _ := status.FromError(classified); !errors.Is(classified, ErrNotFound) || len(classified.Error()) > foreign.Max+100 || len(s.Message()) > foreign.Max+100 || len(s.Details()) > 0 {
			t.Errorf("%s: %.100v", name, classified)
		}
	}
	if err := Classify(fmt.Errorf("%s: %w", long, context.Canceled)); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrCanceled) || len(err.Error()) > foreign.Max {
		t.Errorf("canceled: %.100v", err)
	}
	var reserved *Error
	if err := Classify(status.Errorf(codes.Unknown, "name %q is reserved for %q", long, long)); !errors.As(err, &reserved) || len(reserved.Holder) > foreign.MaxWord {
		t.Errorf("the name of a holder has %d bytes", len(reserved.Holder))
	}
}
