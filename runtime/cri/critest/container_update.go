package critest

import (
	"context"
	"maps"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UpdateContainerResources merges the resources in the request into those in ContainerStatus, as a
// runtime does.
func (s service) UpdateContainerResources(_ context.Context, req *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := byID(s.containers, req.GetContainerId())
	if c == nil {
		return nil, s.cfg.Like.errNoContainer(req.GetContainerId())
	}
	if c.removing {
		return nil, status.Errorf(codes.Unknown, "failed to update resources: container %q is in removing state", c.id)
	}
	c.resources = mergeResources(c.resources, req.GetLinux())
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

func mergeResources(old, change *runtimeapi.LinuxContainerResources) *runtimeapi.LinuxContainerResources {
	merged := proto.CloneOf(old)
	if merged == nil {
		merged = &runtimeapi.LinuxContainerResources{}
	}
	for _, f := range []struct {
		to   *int64
		from int64
	}{
		{&merged.CpuPeriod, change.GetCpuPeriod()},
		{&merged.CpuQuota, change.GetCpuQuota()},
		{&merged.CpuShares, change.GetCpuShares()},
		{&merged.MemoryLimitInBytes, change.GetMemoryLimitInBytes()},
		{&merged.MemorySwapLimitInBytes, change.GetMemorySwapLimitInBytes()},
		{&merged.OomScoreAdj, change.GetOomScoreAdj()},
	} {
		if f.from != 0 {
			*f.to = f.from
		}
	}
	if v := change.GetCpusetCpus(); v != "" {
		merged.CpusetCpus = v
	}
	if v := change.GetCpusetMems(); v != "" {
		merged.CpusetMems = v
	}
	if u := change.GetUnified(); len(u) > 0 {
		all := maps.Clone(merged.Unified)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, u)
		merged.Unified = all
	}
	return merged
}
