package critest

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// ContainerStatus returns one container's status. Verbose adds the sandbox's ID, but not the
// config, which contains the environment.
func (s service) ContainerStatus(_ context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := byID(s.containers, req.GetContainerId())
	if c == nil || c.unclaimed || s.hidden[c.id]&faults.InStatus != 0 {
		return nil, errNoContainer(req.GetContainerId())
	}
	resp := &runtimeapi.ContainerStatusResponse{Status: c.status()}
	if req.GetVerbose() {
		resp.Info = map[string]string{"info": fmt.Sprintf(`{"sandboxID":%q}`, c.sandbox.id)}
	}
	return resp, nil
}
