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

// ListPodSandbox lists the sandboxes that match the filter, oldest first.
func (s service) ListPodSandbox(_ context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &runtimeapi.ListPodSandboxResponse{}
	f := req.GetFilter()
	from := maps.Values(s.sandboxes)
	if uid, ok := f.GetLabelSelector()[labelUID]; ok {
		from = slices.Values(s.sandboxesOfPod[uid])
	}
	listed := func(sb *sandbox) bool {
		return !sb.unclaimed && s.hidden[sb.id]&faults.InList == 0 &&
			strings.HasPrefix(sb.id, f.GetId()) &&
			(f.GetState() == nil || f.GetState().GetState() == sb.state) &&
			selects(f.GetLabelSelector(), sb.config.GetLabels())
	}
	for _, sb := range oldestFirst(from, listed) {
		resp.Items = append(resp.Items, &runtimeapi.PodSandbox{
			Id:             sb.id,
			Metadata:       proto.CloneOf(sb.config.GetMetadata()),
			State:          sb.state,
			CreatedAt:      sb.createdAt,
			Labels:         maps.Clone(sb.config.GetLabels()),
			Annotations:    maps.Clone(sb.config.GetAnnotations()),
			RuntimeHandler: sb.handler,
		})
	}
	return resp, nil
}

// selects reports whether the labels have all pairs of the selector.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
