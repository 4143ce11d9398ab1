package critest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemoveContainer ends the container if it runs, and removes it. It succeeds for an unknown container.
// The log remains, because it belongs to the agent.
func (s service) RemoveContainer(ctx context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	if c := s.container(req.GetContainerId()); c != nil {
		if err := s.removeContainer(ctx, c); err != nil {
			return nil, err
		}
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (s service) removeContainer(ctx context.Context, c *container) error {
	if err := s.stopContainer(ctx, c, s.cfg.Like.grace(ctx)); err != nil {
		return err
	}
	s.mu.Lock()
	if c.starting {
		s.mu.Unlock()
		return status.Errorf(codes.Unknown, "failed to set removing state for container %q: container is in starting state, can't be removed", c.id)
	}
	c.removing = true
	_, there := s.containers[c.id]
	s.forgetContainer(c)
	s.gone(c.id)
	s.release(c.name, c.id)
	s.mu.Unlock()
	if there {
		s.emit(c.id, c.sandbox.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	}
	return nil
}
