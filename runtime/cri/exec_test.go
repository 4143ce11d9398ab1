package cri

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestExecAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		size := 0
		s.exec = func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			return &runtimeapi.ExecSyncResponse{Stdout: bytes.Repeat([]byte("a"), size), ExitCode: 3}, nil
		}
		c := s.client(t, Config{})
		for _, size = range []int{0, 10, streamWindow, maxExecAnswer - 100} {
			resp, err := c.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{})
			if err != nil || len(resp.GetStdout()) != size || resp.GetExitCode() != 3 {
				t.Errorf("%d bytes: %d and exit code %d, %v", size, len(resp.GetStdout()), resp.GetExitCode(), err)
			}
		}
		for _, size = range []int{maxExecAnswer, 15 << 20} {
			if _, err := c.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{}); !errors.Is(Classify(err), ErrExhausted) || !strings.Contains(err.Error(), "1048576") {
				t.Errorf("%d bytes: %v, want an error of class %q that names the limit", size, err, ErrExhausted)
			}
		}
	})
}

// ExecSync returns the errors of the runtime, as any other call does.
func TestExecErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.exec = func(context.Context, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			return nil, status.Error(codes.NotFound, "no such container")
		}
		c := s.client(t, Config{})
		if _, err := c.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{}); !errors.Is(Classify(err), ErrNotFound) {
			t.Errorf("%v, want class %q", err, ErrNotFound)
		}
		s.shutdown()
		if _, err := c.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{}); !errors.Is(Classify(err), ErrUnavailable) {
			t.Errorf("%v, want class %q", err, ErrUnavailable)
		}
	})
}

// Calls that wait for their responses delay no other call. Responses that have arrived are received a
// few at a time.
func TestExecAnswersWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.exec = func(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			if r.GetTimeout() > 0 {
				<-ctx.Done()
			}
			return &runtimeapi.ExecSyncResponse{}, nil
		}
		slots := make(execAnswers, 1)
		c := s.client(t, Config{})
		hung := make(chan error)
		for range 10 {
			go func() {
				hung <- slots.intercept(t.Context(), runtimeapi.RuntimeService_ExecSync_FullMethodName, &runtimeapi.ExecSyncRequest{Timeout: 5}, &runtimeapi.ExecSyncResponse{}, c.conn.(*grpc.ClientConn), nil)
			}()
		}
		call := func(bound time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			return slots.intercept(ctx, runtimeapi.RuntimeService_ExecSync_FullMethodName, &runtimeapi.ExecSyncRequest{}, &runtimeapi.ExecSyncResponse{}, c.conn.(*grpc.ClientConn), nil)
		}
		must.Do(t, call(time.Second))
		slots <- struct{}{}
		if err := call(time.Second); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("while an answer is received: %v, want that the time is over", err)
		}
		<-slots
		must.Do(t, call(time.Second))
		s.shutdown()
		for range 10 {
			<-hung
		}
	})
}
