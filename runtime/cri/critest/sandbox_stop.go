package critest

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StopPodSandbox stops everything in the sandbox and releases its network. It succeeds for unknown
// and stopped sandboxes.
func (s service) StopPodSandbox(ctx context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	if sb := s.sandbox(req.GetPodSandboxId()); sb != nil {
		if err := s.stopSandbox(ctx, sb); err != nil {
			return nil, err
		}
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (s service) stopSandbox(ctx context.Context, sb *sandbox) error {
	s.mu.Lock()
	inside := s.containersOf(sb.id)
	s.mu.Unlock()
	for _, c := range inside {
		if err := s.stopContainer(ctx, c, s.cfg.Like.grace(ctx)); err != nil {
			return err
		}
	}
	s.mu.Lock()
	was := sb.ready()
	sb.state = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	if s.cfg.Like == CRIO {
		sb.lastIPs = sb.ips
	}
	s.setIPs(sb, nil)
	s.mu.Unlock()
	if was {
		s.emit(sb.id, sb.id, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
	return nil
}
