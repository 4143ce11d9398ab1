package critest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// PodSandboxStatus returns one sandbox's status and, as in CRI-O, its containers' statuses at the time
// of the timestamp.
func (s service) PodSandboxStatus(_ context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := req.GetPodSandboxId()
	sb := byID(s.sandboxes, id)
	if sb == nil || sb.unclaimed || s.hidden[sb.id]&faults.InStatus != 0 {
		return nil, status.Errorf(codes.NotFound, "an error occurred when try to find sandbox: not found: %q", id)
	}
	resp := &runtimeapi.PodSandboxStatusResponse{Status: sb.status()}
	if s.cfg.Like == CRIO {
		for _, c := range s.containersOf(sb.id) {
			resp.ContainersStatuses = append(resp.ContainersStatuses, c.status())
		}
		resp.Timestamp = time.Now().UnixNano()
	}
	if req.GetVerbose() {
		resp.Info = map[string]string{"info": "{}"}
	}
	return resp, nil
}

// UpdatePodSandboxResources has no effect; the journal records the call.
func (s service) UpdatePodSandboxResources(_ context.Context, req *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sb := byID(s.sandboxes, req.GetPodSandboxId())
	if sb == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox %q: not found", req.GetPodSandboxId())
	}
	sb.overhead, sb.resources = proto.CloneOf(req.GetOverhead()), proto.CloneOf(req.GetResources())
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}
