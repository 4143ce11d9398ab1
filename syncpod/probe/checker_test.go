package probe

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func checkerOf(t *testing.T, c CheckerConfig) *Checker {
	t.Helper()
	checker := must.Get(NewChecker(c))(t)
	return checker
}

var command = v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}

// A Checker without a runtime checks a port, and has no result for a command.
func TestCheckerNeedsNoRuntime(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := listener.Addr().(*net.TCPAddr).Port
	socket := &v1.Probe{TimeoutSeconds: 30, ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("web")}}}
	r := Request{Probe: socket, PodIP: "127.0.0.1", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}
	checker := checkerOf(t, CheckerConfig{})
	if got, err := checker.Probe(t.Context(), r); err != nil || got != (Result{Outcome: actions.ProbeSuccess}) {
		t.Errorf("%+v, %v", got, err)
	}
	listener.Close()
	if got, err := checker.Probe(t.Context(), r); err != nil || got.Outcome != actions.ProbeFailure || !strings.Contains(got.Message, strconv.Itoa(port)) {
		t.Errorf("a closed port: %+v, %v", got, err)
	}
	if got, err := checker.Probe(t.Context(), Request{Probe: &v1.Probe{ProbeHandler: command}, ContainerID: "a"}); !errors.Is(err, cri.ErrUnimplemented) || got.Outcome != actions.ProbeUnknown {
		t.Errorf("a command: %+v, %v", got, err)
	}
	if got, err := checker.Probe(t.Context(), Request{}); err == nil || got.Outcome != actions.ProbeUnknown {
		t.Errorf("no probe: %+v, %v", got, err)
	}
}

// hangs is a runtime that answers when the call ends.
type hangs struct{}

func (hangs) ExecSync(ctx context.Context, _ *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A timeout is a failure; a check that its caller cancels has no result.
func TestCheckerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checker, began := checkerOf(t, CheckerConfig{Exec: hangs{}}), time.Now()
		r := Request{Probe: &v1.Probe{ProbeHandler: command}, ContainerID: "a"}
		if got, err := checker.Probe(t.Context(), r); err != nil || got.Outcome != actions.ProbeFailure || time.Since(began) != time.Second {
			t.Errorf("%+v, %v, after %v", got, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if got, err := checker.Probe(ctx, r); !errors.Is(err, context.DeadlineExceeded) || got.Outcome != actions.ProbeUnknown {
			t.Errorf("cancelled: %+v, %v", got, err)
		}
	})
}
