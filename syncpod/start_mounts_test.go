package syncpod_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container"
)

// released counts how often the mounts of a start were released.
type released struct{ times int }

func (r *released) Mounts(context.Context, container.MountRequest) (container.Mounts, error) {
	return container.Mounts{Release: func() error { r.times++; return nil }}, nil
}

// What is mounted for a start alone is released when the container has started or cannot start, and not
// while it may yet start.
func TestMountsOfAStartAreReleased(t *testing.T) {
	refused, lost := status.Error(codes.InvalidArgument, "refused"), status.Error(codes.Unavailable, "lost")
	for name, tc := range map[string]struct {
		faults []critest.Fault
		want   int
	}{
		"started":                 {nil, 1},
		"not created":             {[]critest.Fault{{Match: critest.Match{Method: critest.CreateContainer}, Err: refused}}, 1},
		"not started":             {[]critest.Fault{{Match: critest.Match{Method: critest.StartContainer}, Err: refused}}, 1},
		"started, answer lost":    {[]critest.Fault{{Match: critest.Match{Method: critest.StartContainer}, When: critest.After, Err: lost}}, 1},
		"started or not, unknown": {[]critest.Fault{{Match: critest.Match{Method: critest.StartContainer}, Err: lost}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				mounts := &released{}
				n.restart(func(c *syncpod.Config) { c.Deps.Mounts = mounts })
				for _, f := range tc.faults {
					n.Fault(f)
				}
				_, _ = n.SyncPod(t.Context(), testPod(), nil) // the test is about what is done after a failure
				if mounts.times != tc.want {
					t.Errorf("released %d times, want %d\n%v", mounts.times, tc.want, n.Journal())
				}
			})
		})
	}
}
