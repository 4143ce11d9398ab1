package cri

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// hangingConn is a connection whose calls end with their contexts.
type hangingConn struct {
	grpc.ClientConnInterface
	closed bool
}

func (*hangingConn) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c *hangingConn) Close() error {
	c.closed = true
	return nil
}

// E7: the calls of a client of any connection have timeouts.
func TestE7_EveryClientHasTimeouts(t *testing.T) {
	for name, tc := range map[string]struct {
		conn func(grpc.ClientConnInterface) grpc.ClientConnInterface
		want time.Duration
	}{
		"by default": {func(c grpc.ClientConnInterface) grpc.ClientConnInterface { return c }, 2 * time.Minute},
		"of its own": {Timeouts{Call: time.Hour}.Conn, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				below := &hangingConn{}
				client, began := NewClient(tc.conn(below)), time.Now()
				_, err := client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{})
				if took := time.Since(began); took != tc.want || !errors.Is(Classify(err), ErrDeadline) {
					t.Errorf("%v after %v, want %v after %v", err, took, ErrDeadline, tc.want)
				}
				if err := client.Close(); err != nil || !below.closed {
					t.Errorf("closed: %t, error %v", below.closed, err)
				}
			})
		})
	}
}
