package syncpod_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/foreign"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
)

// released counts how often the mounts of a start were released.
type released struct{ times int }

func (r *released) Mounts(context.Context, container.MountRequest) (container.Mounts, error) {
	return container.Mounts{Release: func() error { r.times++; return nil }}, nil
}

// Mounts for a start are released when the container has started or cannot start, and not
// while it may still start.
func TestMountsOfAStartAreReleased(t *testing.T) {
	refused, lost := status.Error(codes.InvalidArgument, "refused"), status.Error(codes.Unavailable, "lost")
	for name, tc := range map[string]struct {
		refusals []faults.Fault
		want     int
	}{
		"started":                 {nil, 1},
		"not created":             {[]faults.Fault{{Match: faults.Match{Method: critest.CreateContainer}, Err: refused}}, 1},
		"not started":             {[]faults.Fault{{Match: faults.Match{Method: critest.StartContainer}, Err: refused}}, 1},
		"started, answer lost":    {[]faults.Fault{{Match: faults.Match{Method: critest.StartContainer}, When: faults.After, Err: lost}}, 1},
		"started or not, unknown": {[]faults.Fault{{Match: faults.Match{Method: critest.StartContainer}, Err: lost}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				mounts := &released{}
				n.restart(func(c *syncpod.Config) { c.Parts.Mounts = mounts })
				for _, f := range tc.refusals {
					n.Fault(f)
				}
				_, _ = n.SyncPod(t.Context(), testPod(), nil) // the test is about the sync after a failure
				if mounts.times != tc.want {
					t.Errorf("released %d times, want %d\n%v", mounts.times, tc.want, n.Journal())
				}
			})
		})
	}
}

// stuckMounts fails with the container's variables, as mount(2) does for a subPathExpr.
type stuckMounts struct{ made bool }

func (s stuckMounts) Mounts(_ context.Context, in container.MountRequest) (container.Mounts, error) {
	err := fmt.Errorf("mount /data/%s: device or resource busy", in.Env[0].Value)
	if !s.made {
		return container.Mounts{}, err
	}
	return container.Mounts{Release: func() error { return err }}, nil
}

// Values of Secrets are not in the errors of mounts, also if mounts are released long after the start.
func TestSecretsInErrorsOfMounts(t *testing.T) {
	lost := status.Error(codes.Unavailable, "lost")
	for name, tc := range map[string]struct {
		mounts stuckMounts
		faults []faults.Fault
	}{
		"mount":        {},
		"release":      {mounts: stuckMounts{made: true}},
		"late release": {mounts: stuckMounts{made: true}, faults: []faults.Fault{{Match: faults.Match{Method: critest.StartContainer}, Err: lost}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				var log strings.Builder
				n.restart(func(c *syncpod.Config) {
					c.Parts.Mounts, c.Objects.Sources = tc.mounts, env.Sources{Secrets: oneSecret("hunter2")}
					c.Log = funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{})
				})
				for _, f := range tc.faults {
					n.Fault(f)
				}
				for range 2 {
					if _, err := n.SyncPod(t.Context(), withSecret(false), nil); err != nil {
						log.WriteString(err.Error())
					}
					time.Sleep(time.Minute)
				}
				if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, foreign.Redacted) {
					t.Errorf("%s, want the value replaced", text)
				}
			})
		})
	}
}

// Mounts of a start with an unknown result are released once the container has started or is removed, or when the
// pod must stop.
func TestMountsOfAnOpenStartAreReleasedLater(t *testing.T) {
	lost := status.Error(codes.Unavailable, "lost")
	for name, later := range map[string]func(n *node){
		"another sync":       func(n *node) { n.drive(testPod(), time.Minute) },
		"the end of the pod": func(n *node) { n.end(testPod(), nil) },
		"the end of the pod, whose container is not stopped": func(n *node) {
			n.Fault(faults.Fault{Match: faults.Match{Method: critest.StopContainer}, Err: lost})
			_ = n.SyncTerminatingPod(n.Context(), syncpod.Termination{Pod: testPod()}) // it fails
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				mounts := &released{}
				n.restart(func(c *syncpod.Config) { c.Parts.Mounts = mounts })
				n.Fault(faults.Fault{Match: faults.Match{Method: critest.StartContainer}, Err: lost})
				_, _ = n.SyncPod(t.Context(), testPod(), nil) // it fails
				if mounts.times != 0 {
					t.Fatalf("released %d times, want that the start is left open", mounts.times)
				}
				if later(n); mounts.times == 0 {
					t.Errorf("not released\n%v", n.Journal())
				}
			})
		})
	}
}
