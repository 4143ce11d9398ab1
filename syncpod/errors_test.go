package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// Errors have the time of the next attempt, in the form that workers read.
func TestErrorsSayWhenToComeAgain(t *testing.T) {
	refused := func(image string) faults.Fault {
		return faults.Fault{Match: faults.Match{Method: critest.CreateContainer, Container: image}, Times: faults.Always, Err: errBroken}
	}
	away := faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: faults.Always, Err: status.Error(codes.Unavailable, "gone")}
	for name, tc := range map[string]struct {
		refusals  []faults.Fault
		retryIn   time.Duration
		temporary bool
	}{
		"a container cannot be made": {refusals: []faults.Fault{refused("app")}, retryIn: 10 * time.Second},
		"two cannot":                 {refusals: []faults.Fault{refused("app"), refused("b")}, retryIn: 10 * time.Second},
		"the runtime is unavailable": {refusals: []faults.Fault{away}, temporary: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				for _, f := range tc.refusals {
					n.Fault(f)
				}
				r, err := n.SyncPod(t.Context(), testPod(containers(ctr("app"), ctr("b"))), nil)
				retry, ok := errors.AsType[interface {
					error
					RetryAt() time.Time
				}](err)
				if !ok {
					t.Fatalf("%v has no time of the next attempt", err)
				}
				if at := retry.RetryAt(); tc.retryIn == 0 != at.IsZero() || !at.IsZero() && time.Until(at) != tc.retryIn {
					t.Errorf("retry at %v, want in %v", at, tc.retryIn)
				}
				if !r.NextTry.Equal(retry.RetryAt()) {
					t.Errorf("next try at %v, retry at %v", r.NextTry, retry.RetryAt())
				}
				if soon, ok := errors.AsType[interface {
					error
					Temporary() bool
				}](err); !ok || soon.Temporary() != tc.temporary {
					t.Errorf("temporary %t, want %t", !tc.temporary, tc.temporary)
				}
			})
		})
	}
}

func TestBackOffIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.Fault(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Err: errBroken})
		if _, err := n.SyncPod(t.Context(), testPod(), nil); err == nil {
			t.Fatal("the failed pull is no error")
		}
		r, err := n.SyncPod(context.WithoutCancel(t.Context()), testPod(), nil)
		if err != nil || r.NextTry.IsZero() || len(r.Failed) != 1 || r.Failed[0].Step != "image" {
			t.Errorf("result %+v, %v, want a next try and no error", r, err)
		}
		if w := n.report.container("app").State.Waiting; w == nil || w.Reason != "ImagePullBackOff" {
			t.Errorf("reported %+v, want it to wait because of %q", n.report.last(), "ImagePullBackOff")
		}
		if n.events.count("Failed spec.containers{app} Error: ") != 1 || n.events.count("Failed spec.containers{app} Error: ErrImagePull") != 1 {
			t.Errorf("events %q, want one event of the failure, with its reason", n.events.all)
		}
	})
}
