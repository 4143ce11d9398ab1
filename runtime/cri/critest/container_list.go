package critest

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// ListContainers lists the containers that match the filter, oldest first.
func (s service) ListContainers(_ context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListContainersResponse{}
	f := req.GetFilter()
	from := maps.Values(s.containers)
	if uid, ok := f.GetLabelSelector()[labelUID]; ok {
		from = slices.Values(s.containersOfPod[uid])
	}
	listed := func(c *container) bool {
		return !c.unclaimed && s.hidden[c.id]&faults.InList == 0 &&
			strings.HasPrefix(c.id, f.GetId()) &&
			strings.HasPrefix(c.sandbox.id, f.GetPodSandboxId()) &&
			(f.GetState() == nil || f.GetState().GetState() == c.state) &&
			selects(f.GetLabelSelector(), c.config.GetLabels())
	}
	for _, c := range oldestFirst(from, listed) {
		resp.Containers = append(resp.Containers, c.listed())
	}
	return resp, nil
}

// listed must be called with mu held.
func (c *container) listed() *runtimeapi.Container {
	return &runtimeapi.Container{
		Id:           c.id,
		PodSandboxId: c.sandbox.id,
		Metadata:     proto.CloneOf(c.config.GetMetadata()),
		Image:        proto.CloneOf(c.config.GetImage()),
		ImageRef:     c.image.ID,
		ImageId:      c.image.ID,
		State:        c.state,
		CreatedAt:    c.createdAt,
		Labels:       maps.Clone(c.config.GetLabels()),
		Annotations:  maps.Clone(c.config.GetAnnotations()),
	}
}
