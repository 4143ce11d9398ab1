package run_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/sandbox/run"
)

// K2: a missing sandbox counts as stopped and removed, regardless of the text of the error.
func TestK2_NotFoundIsSuccess(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		gone := status.Error(codes.Unknown, "No such container: x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 2 {
			for _, f := range []func(context.Context, string) error{n.runner.Stop, n.runner.Remove} {
				if err := f(ctx, "unknown"); err != nil {
					t.Error(err)
				}
			}
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: gone})
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemovePodSandbox}, Times: faults.Always, Err: gone})
		}
	})
}

// S6: a stop is tried until it succeeds, and nothing is removed before.
func TestS6_RemoveOnlyAfterAStop(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		c := n.create(1)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: 8, Err: status.Error(codes.Unknown, "CNI DEL failed")})
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.RemovePodSandbox}, Err: status.Error(codes.Unavailable, "restarting")})
		began := time.Now()
		must.Do(t, n.runner.Remove(t.Context(), c.ID))
		// 1+2+4+8+16+30+30+30 s of pauses between nine stops, 1 s between two removes.
		if took, want := time.Since(began), 122*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
		stopped := false
		for _, call := range n.Journal().Of(critest.StopPodSandbox, critest.RemovePodSandbox) {
			if call.Method == critest.RemovePodSandbox && !stopped {
				t.Errorf("removed before a stop had succeeded\n%v", n.Journal())
			}
			stopped = stopped || call.Method == critest.StopPodSandbox && call.Err == nil
		}
		if got := n.Sandboxes(); len(got) != 0 {
			t.Errorf("still there: %v", got)
		}
	})
}

// K3: a stop that never succeeds ends with its context, and returns the reason.
func TestK3_StopEndsWithItsContext(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		c := n.create(1)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Err: status.Error(codes.Unknown, "CNI DEL failed")})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err := n.runner.Remove(ctx, c.ID)
		if err == nil || !strings.Contains(err.Error(), "CNI DEL failed") {
			t.Errorf("%v, want the runtime's words", err)
		}
		if calls := n.Journal().Count(critest.StopPodSandbox); calls < 20 || calls > 26 {
			t.Errorf("%d stops in 10 minutes, want one in 30 s", calls)
		}
		if n.Journal().Count(critest.RemovePodSandbox) != 0 {
			t.Error("removed without a stop")
		}
	})
}

func TestStopReturnsPermanentErrors(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Err: status.Error(codes.PermissionDenied, "no")})
		began := time.Now()
		if err := n.runner.Stop(t.Context(), n.create(1).ID); !errors.Is(err, cri.ErrPermission) || time.Since(began) != 0 {
			t.Errorf("after %v: %v, want error %v and 0", time.Since(began), err, cri.ErrPermission)
		}
		if err := n.runner.Stop(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "ID is empty") {
			t.Errorf("%v, want an error and %q in it", err, "ID is empty")
		}
	})
}

// A runtime may continue after its caller has left.
func TestOneStopInFlightAfterItsCallerLeft(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		c := n.create(1)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: faults.Always, Delay: 10 * time.Second, IgnoreCancel: true})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.runner.Stop(ctx, c.ID); !errors.Is(err, cri.ErrDeadline) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v; want the context's error after a second", time.Since(began), err)
		}
		must.Do(t, n.runner.Stop(t.Context(), c.ID))
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("took %v, want the result of the stop in flight", took)
		}
		time.Sleep(time.Hour)
		if most := n.Journal().Of(critest.StopPodSandbox).MaxConcurrent(); most != 1 {
			t.Errorf("%d stops at once\n%v", most, n.Journal())
		}
		if err := n.runner.Stop(ctx, c.ID); !errors.Is(err, cri.ErrDeadline) {
			t.Errorf("%v, want the context's error", err)
		}
		time.Sleep(time.Hour)
		if calls := n.Journal().Count(critest.StopPodSandbox); calls != 1 {
			t.Errorf("%d stops; want none begun for a context that has ended\n%v", calls, n.Journal())
		}
	})
}

func TestWaitWaitsForStopsInFlight(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.runner.Wait()
		a := n.create(1)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Delay: 10 * time.Second})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		n.runner.Stop(ctx, a.ID)
		n.runner.Wait()
		if took := time.Since(began); took != 10*time.Second || len(n.ready()) != 0 {
			t.Errorf("waited %v, ready %v; want the end of the stop after 10 s", took, n.ready())
		}
	})
}

// CancelPending cancels a stop whose caller has left, but not a stop that begins later.
func TestCancelPendingEndsStopsInFlight(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.runner.CancelPending()
		a := n.create(1)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Times: 2, Delay: 10 * time.Second})
		for _, want := range []time.Duration{3 * time.Second, 10 * time.Second} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			n.runner.Stop(ctx, a.ID)
			cancel()
			if want < 10*time.Second {
				time.AfterFunc(want-time.Second, n.runner.CancelPending)
			}
			n.runner.Wait()
			if took := time.Since(began); took != want {
				t.Errorf("waited %v, want %v", took, want)
			}
		}
	})
}

// A stop to which the runtime never responds is given up and retried.
func TestStopTimeout(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		n.runner = must.Get(run.New(run.Config{Runtime: n.Client, StopTimeout: 20 * time.Second}))(t)
		c := n.create(1)
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopPodSandbox}, Hang: &faults.Gate{}})
		began := time.Now()
		if err := n.runner.Stop(t.Context(), c.ID); err != nil || time.Since(began) != 21*time.Second {
			t.Errorf("after %v: %v; want success after the timeout and a pause", time.Since(began), err)
		}
	})
}

// F8: a stop continues when the runtime is available again.
func TestF8_StopOverARestart(t *testing.T) {
	bothStyles(t, func(t *testing.T, n *node) {
		c := n.create(1)
		must.Do(t, n.Restart(faults.Restart{Down: time.Minute}))
		must.Do(t, n.runner.Remove(t.Context(), c.ID))
		if got := n.Sandboxes(); len(got) != 0 {
			t.Errorf("still there: %v", got)
		}
	})
}

func TestNewRunnerValidates(t *testing.T) {
	runtime := runtimeapi.NewRuntimeServiceClient(nil)
	must.Get(run.New(run.Config{Runtime: runtime, InitialRetry: time.Minute, MaxRetry: time.Hour}))(t)
	for want, c := range map[string]run.Config{
		"Config.Runtime":             {},
		"Owner.Name":                 {Runtime: runtime, Owner: cri.Owner{Name: "a b"}},
		"Config.CleanupTimeout":      {Runtime: runtime, CleanupTimeout: -1},
		"Config.StopTimeout":         {Runtime: runtime, StopTimeout: -1},
		"Config.NameReservedRetries": {Runtime: runtime, NameReservedRetries: -1},
		"Config.UnresolvedTimeout":   {Runtime: runtime, UnresolvedTimeout: -1},
		"Config.InitialRetry":        {Runtime: runtime, InitialRetry: time.Hour},
		"InitialRetry is negative":   {Runtime: runtime, InitialRetry: -1},
	} {
		if _, err := run.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want an error that names %s", err, want)
		}
	}
}
