package server

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// errorPause is the pause after a pod could not be read.
const errorPause = time.Second

// ended returns a function that waits until a container instance has ended. It makes no call to the runtime: it
// waits for the agent's own inspections.
func (s *Server) ended(uid types.UID, id runtime.ContainerID) func(context.Context) error {
	return func(ctx context.Context) error {
		var since time.Time
		for {
			status, err := s.config.Agent.Cache().WaitNewer(ctx, uid, since)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				if err := pause(ctx, errorPause); err != nil {
					return err
				}
			case !runs(status, id):
				return nil
			default:
				since = status.ObservedAt
			}
		}
	}
}

// runs reports whether an instance may yet print something.
func runs(status *runtime.PodStatus, id runtime.ContainerID) bool {
	if status == nil {
		return false
	}
	for i := range status.Containers {
		if c := &status.Containers[i]; c.ID.ID == id.ID {
			return c.Live()
		}
	}
	return false
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
