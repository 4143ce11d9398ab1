package syncpod

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// A stopper stops containers and pods. It has what that takes of a Syncer, and no more.
type stopper struct {
	notices
	// record keeps what has changed of a pod for the next agent.
	record func(context.Context, *podMemory)
}

// removeContainer removes a container that does not run. One that is not there
// has been removed.
func (s *stopper) removeContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.StopTimeout)
	defer cancel()
	_, err := s.config.Deps.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	if err := cri.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}

// stopContainer asks the runtime to stop a container within timeout seconds, and
// waits a little longer for the answer than that. One that is not there has
// stopped.
func (s *stopper) stopContainer(ctx context.Context, id string, timeout int64) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(timeout)+s.config.Limits.StopTimeout)
	defer cancel()
	return s.askToStop(ctx, id, timeout)
}

func (s *stopper) askToStop(ctx context.Context, id string, timeout int64) error {
	_, err := s.config.Deps.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	if err := cri.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("stop container: %w", err)
	}
	return nil
}
