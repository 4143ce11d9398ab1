package critest

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RemovePodSandbox stops the sandbox if necessary and removes it with its containers. It succeeds
// for an unknown sandbox.
func (s service) RemovePodSandbox(ctx context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	sb := s.sandbox(req.GetPodSandboxId())
	if sb == nil {
		return &runtimeapi.RemovePodSandboxResponse{}, nil
	}
	if err := s.stopSandbox(ctx, sb); err != nil {
		return nil, err
	}
	s.mu.Lock()
	sb.silent = s.cfg.Like == CRIO
	inside := s.containersOf(sb.id)
	s.mu.Unlock()
	for _, c := range inside {
		if err := s.removeContainer(ctx, c); err != nil {
			return nil, err
		}
	}
	s.emit(sb.id, sb.id, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	s.mu.Lock()
	s.forgetSandbox(sb)
	s.gone(sb.id)
	s.release(sb.name, sb.id)
	s.mu.Unlock()
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}
