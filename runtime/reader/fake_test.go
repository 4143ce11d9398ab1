package reader

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// fakeRuntime answers the Runtime of literal sandboxes and containers that counts calls.
type fakeRuntime struct {
	sandboxes  []*runtimeapi.PodSandboxStatus
	containers []*runtimeapi.ContainerStatus
	inSandbox  map[string]string // of each container
	evented    bool
	gone       map[string]error // the response for an ID that is listed
	calls      []string
}

func (n *fakeRuntime) took() (calls []string) {
	calls, n.calls = n.calls, nil
	return calls
}

func podLabels(owner, uid string) map[string]string {
	labels := map[string]string{runtime.LabelPodUID: uid, runtime.LabelPodName: "p" + uid, runtime.LabelPodNamespace: "ns"}
	if owner != "" {
		labels[cri.LabelOwner] = owner
	}
	return labels
}

// sandbox adds a ready sandbox with an address.
func (n *fakeRuntime) sandbox(owner, uid string, attempt uint32) *runtimeapi.PodSandboxStatus {
	s := &runtimeapi.PodSandboxStatus{
		Id:       fmt.Sprintf("s-%s-%d", uid, attempt),
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "p" + uid, Namespace: "ns", Uid: uid, Attempt: attempt},
		Network:  &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::1"}}},
		Labels:   podLabels(owner, uid),
	}
	n.sandboxes = append(n.sandboxes, s)
	return s
}

// container adds a running container.
func (n *fakeRuntime) container(s *runtimeapi.PodSandboxStatus, name string, attempt uint32) *runtimeapi.ContainerStatus {
	labels := maps.Clone(s.Labels)
	labels[runtime.LabelContainerName] = name
	c := &runtimeapi.ContainerStatus{
		Id:       fmt.Sprintf("c-%s-%s-%d", s.Metadata.Uid, name, attempt),
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		State:    runtimeapi.ContainerState_CONTAINER_RUNNING,
		Labels:   labels,
		Annotations: map[string]string{
			runtime.AnnotationHash: "ab", runtime.AnnotationRestartCount: strconv.Itoa(int(attempt)),
		},
		StartedAt: 1,
	}
	if n.inSandbox == nil {
		n.inSandbox = map[string]string{}
	}
	n.inSandbox[c.Id] = s.Id
	n.containers = append(n.containers, c)
	return c
}

func matches(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (n *fakeRuntime) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	n.calls = append(n.calls, "ListPodSandbox")
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range n.sandboxes {
		if matches(s.Labels, r.GetFilter().GetLabelSelector()) {
			resp.Items = append(resp.Items, &runtimeapi.PodSandbox{Id: s.Id, Metadata: s.Metadata, State: s.State, Labels: s.Labels})
		}
	}
	return resp, n.gone["ListPodSandbox"]
}

func (n *fakeRuntime) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest, _ ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	n.calls = append(n.calls, "ListContainers")
	resp := &runtimeapi.ListContainersResponse{}
	for _, c := range n.containers {
		if matches(c.Labels, r.GetFilter().GetLabelSelector()) {
			resp.Containers = append(resp.Containers, &runtimeapi.Container{
				Id: c.Id, PodSandboxId: n.inSandbox[c.Id], Metadata: c.Metadata, State: c.State, Labels: c.Labels, Annotations: c.Annotations,
			})
		}
	}
	return resp, n.gone["ListContainers"]
}

func (n *fakeRuntime) PodSandboxStatus(_ context.Context, r *runtimeapi.PodSandboxStatusRequest, _ ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	n.calls = append(n.calls, "PodSandboxStatus "+r.PodSandboxId)
	if err := n.gone[r.PodSandboxId]; err != nil {
		return nil, err
	}
	resp := &runtimeapi.PodSandboxStatusResponse{}
	for _, s := range n.sandboxes {
		if s.Id == r.PodSandboxId {
			resp.Status = s
		}
	}
	for _, c := range n.containers {
		if n.evented && n.inSandbox[c.Id] == r.PodSandboxId {
			resp.ContainersStatuses = append(resp.ContainersStatuses, c)
		}
	}
	return resp, nil
}

func (n *fakeRuntime) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	n.calls = append(n.calls, "ContainerStatus "+r.ContainerId)
	if err := n.gone[r.ContainerId]; err != nil {
		return nil, err
	}
	for _, c := range n.containers {
		if c.Id == r.ContainerId {
			return &runtimeapi.ContainerStatusResponse{Status: c}, nil
		}
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

// slowReader takes a second for each list.
type slowReader struct{ *fakeRuntime }

func (s *slowReader) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest, o ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	time.Sleep(time.Second)
	return s.fakeRuntime.ListPodSandbox(ctx, r, o...)
}

// lost answers for a sandbox without a status.
type lost struct{ *fakeRuntime }

func (l *lost) PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest, ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	return &runtimeapi.PodSandboxStatusResponse{}, nil
}
