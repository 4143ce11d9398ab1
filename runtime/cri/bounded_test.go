package cri

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// deadlines notes whether the last call had a deadline. It stands for an implementation without gRPC.
type deadlines struct{ had bool }

func (d *deadlines) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	_, d.had = ctx.Deadline()
	return nil
}

func (d *deadlines) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}

// Each call but the streams has a timeout, also those that later versions of cri-api add.
func TestCallsOfAnyImplementationAreBounded(t *testing.T) {
	d := &deadlines{}
	c := Timeouts{PullImage: time.Hour}.Client(runtimeapi.NewRuntimeServiceClient(d), runtimeapi.NewImageServiceClient(d))
	for service, api := range map[any]reflect.Type{
		c.RuntimeServiceClient: reflect.TypeFor[runtimeapi.RuntimeServiceClient](),
		c.ImageServiceClient:   reflect.TypeFor[runtimeapi.ImageServiceClient](),
	} {
		calls := 0
		for i := range api.NumMethod() {
			method := api.Method(i)
			if method.Type.Out(0).Kind() == reflect.Interface {
				continue // a stream
			}
			calls++
			request := reflect.New(method.Type.In(1).Elem())
			if r, ok := request.Interface().(*runtimeapi.ExecSyncRequest); ok {
				r.Timeout = 1
			}
			d.had = false
			reflect.ValueOf(service).MethodByName(method.Name).Call([]reflect.Value{reflect.ValueOf(t.Context()), request})
			if !d.had {
				t.Errorf("%s has no deadline", method.Name)
			}
		}
		if calls < 5 {
			t.Errorf("%v has %d calls, want 5 or more", api, calls)
		}
	}
}

func TestAClientOfOneServiceIsInvalid(t *testing.T) {
	d := &deadlines{}
	runtime, image := runtimeapi.NewRuntimeServiceClient(d), runtimeapi.NewImageServiceClient(d)
	for name, c := range map[string]*Client{"no image service": New(runtime, nil), "no runtime service": New(nil, image), "neither": {}} {
		if c.Validate() == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	c := New(runtime, image)
	if err := errors.Join(c.Validate(), c.Close()); err != nil || c.RuntimeName() != "" {
		t.Errorf("both: %v, name %q", err, c.RuntimeName())
	}
}
