package reader_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/reader"
)

// Whatever a runtime answers is converted: nothing panics, a time that is no time is none, and
// nothing grows beyond the answer.
func FuzzConversion(f *testing.F) {
	for seed := range uint64(20) {
		h := testnode.NewHostile(seed, 0.3)
		c, s := honestContainer(), honestSandbox()
		h.Change(c)
		h.Change(s)
		one, err := proto.Marshal(c)
		if err != nil {
			continue // a text that is not UTF-8 cannot be sent
		}
		other, err := proto.Marshal(s)
		if err == nil && len(one)+len(other) < 1<<16 {
			f.Add(one, other, seed)
		}
	}
	f.Fuzz(func(t *testing.T, one, other []byte, seed uint64) {
		var c runtimeapi.ContainerStatus
		var s runtimeapi.PodSandboxStatus
		if proto.Unmarshal(one, &c) != nil || proto.Unmarshal(other, &s) != nil {
			return
		}
		h := testnode.NewHostile(seed, 0.1)
		h.Change(&c)
		h.Change(&s)
		got := reader.ContainerStatus(&c, "critest", "box")
		if got.ID.ID != c.GetId() || got.State == runtime.ContainerRunning && c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("%v became %+v", &c, got)
		}
		if got.CreatedAt.UnixNano() != c.GetCreatedAt() && !got.CreatedAt.IsZero() {
			t.Errorf("created at %d became %v", c.GetCreatedAt(), got.CreatedAt)
		}
		box := reader.SandboxStatus(&s)
		if box.Network != nil && len(box.Network.IPs) > 1+len(s.GetNetwork().GetAdditionalIps()) {
			t.Errorf("%v has addresses %v", s.GetNetwork(), box.Network.IPs)
		}
		reader.ContainerStatus(nil, "", "")
		reader.SandboxStatus(nil)
	})
}

func honestContainer() *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id: "c", Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, State: runtimeapi.ContainerState_CONTAINER_EXITED, CreatedAt: 1, StartedAt: 2, FinishedAt: 3, ExitCode: 1,
		Labels: map[string]string{runtime.LabelContainerName: "app"}, Annotations: map[string]string{runtime.AnnotationRestartCount: "3", runtime.AnnotationHash: "ff"},
		Resources: &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 1, CpuQuota: 1}},
		User:      &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{SupplementalGroups: []int64{1}}}, StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS1,
	}
}

func honestSandbox() *runtimeapi.PodSandboxStatus {
	return &runtimeapi.PodSandboxStatus{
		Id: "box", Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u", Attempt: 1}, CreatedAt: 1,
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::1"}}},
		Linux:   &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{}}},
	}
}

// Lists with any entries, including nil ones, become pods: each pod once, with each sandbox and container once.
func FuzzList(f *testing.F) {
	f.Add(uint64(1), uint8(10))
	f.Add(uint64(2), uint8(200))
	f.Fuzz(func(t *testing.T, seed uint64, rate uint8) {
		labels := map[string]string{runtime.LabelPodUID: "u", runtime.LabelPodName: "web", runtime.LabelPodNamespace: "default"}
		boxes := &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{
			{Id: "box", Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}, Labels: labels}, {Id: "box", Labels: labels}, {},
		}}
		containers := &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{Id: "c", PodSandboxId: "none", Labels: labels}, {Id: "c", PodSandboxId: "c", Labels: labels}, {}}}
		h := testnode.NewHostile(seed, float64(rate)/512)
		h.Change(boxes)
		h.Change(containers)
		boxes.Items, containers.Containers = append(boxes.Items, nil), append(containers.Containers, nil)
		answers := &hostileAnswers{h: h, boxes: boxes, containers: containers}
		r := must.Get(reader.New(reader.Config{Runtime: answers, RuntimeName: "critest", Owner: cri.Owner{AdoptUnmarked: true}}))(t)
		pods := must.Get(r.List(t.Context()))(t)
		seen := map[types.UID]bool{}
		for _, p := range pods {
			if p.UID == "" || seen[p.UID] {
				t.Errorf("pod %q is listed twice, or is none", p.UID)
			}
			seen[p.UID] = true
			status, err := r.Inspect(t.Context(), p, nil)
			if err != nil {
				continue
			}
			if again, err := r.Inspect(t.Context(), p, status); err == nil && (len(again.Sandboxes) > len(boxes.Items) || len(again.Containers) > len(containers.Containers)) {
				t.Errorf("%d sandboxes and %d containers of %d and %d", len(again.Sandboxes), len(again.Containers), len(boxes.Items), len(containers.Containers))
			}
		}
	})
}

// hostileAnswers is a runtime that returns any status for each container.
type hostileAnswers struct {
	runtimeapi.RuntimeServiceClient
	h          *testnode.Hostile
	boxes      *runtimeapi.ListPodSandboxResponse
	containers *runtimeapi.ListContainersResponse
}

func (a *hostileAnswers) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	return a.boxes, nil
}

func (a *hostileAnswers) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return a.containers, nil
}

func (a *hostileAnswers) PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest, ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	resp := &runtimeapi.PodSandboxStatusResponse{Status: honestSandbox(), ContainersStatuses: []*runtimeapi.ContainerStatus{honestContainer(), {}}}
	a.h.Change(resp)
	resp.ContainersStatuses = append(resp.ContainersStatuses, nil)
	return resp, nil
}

func (a *hostileAnswers) ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	resp := &runtimeapi.ContainerStatusResponse{Status: honestContainer()}
	a.h.Change(resp)
	return resp, nil
}
