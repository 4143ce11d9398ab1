package cri

import (
	"reflect"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

func TestContainerStatus(t *testing.T) {
	got := ContainerStatus(&runtimeapi.ContainerStatus{
		Id:         "c1",
		Metadata:   &runtimeapi.ContainerMetadata{Name: "meta", Attempt: 9},
		State:      runtimeapi.ContainerState_CONTAINER_EXITED,
		CreatedAt:  1e9,
		StartedAt:  2e9,
		FinishedAt: 3e9,
		ExitCode:   137,
		Reason:     "OOMKilled",
		Message:    "oom",
		Image:      &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "app:v1"},
		ImageRef:   "repo/app@sha256:2",
		ImageId:    "sha256:1",
		Labels:     map[string]string{runtime.LabelContainerName: "app"},
		Annotations: map[string]string{
			runtime.AnnotationHash: "d5fc8db0", runtime.AnnotationRestartCount: "4",
		},
		Resources: &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{
			CpuShares: 102, CpuQuota: 50_000, CpuPeriod: 100_000, MemoryLimitInBytes: 1 << 20,
		}},
	}, "containerd", "s1")
	want := runtime.ContainerStatus{
		ID:         runtime.ContainerID{Type: "containerd", ID: "c1"},
		Name:       "app",
		SandboxID:  "s1",
		State:      runtime.ContainerExited,
		Attempt:    4,
		SpecHash:   0xd5fc8db0,
		ExitCode:   137,
		Reason:     "OOMKilled",
		Message:    "oom",
		CreatedAt:  time.Unix(1, 0),
		StartedAt:  time.Unix(2, 0),
		FinishedAt: time.Unix(3, 0),
		Image:      "app:v1",
		ImageID:    "sha256:1",
		ImageRef:   "repo/app@sha256:2",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A container made without podsync's labels and annotations, with the times of
// one that never ran, by a runtime older than ImageId.
func TestContainerStatusWithoutAnnotations(t *testing.T) {
	got := ContainerStatus(&runtimeapi.ContainerStatus{
		Id:          "c1",
		Metadata:    &runtimeapi.ContainerMetadata{Name: "meta", Attempt: 9},
		State:       runtimeapi.ContainerState_CONTAINER_UNKNOWN,
		FinishedAt:  time.Time{}.UnixNano(),
		ImageRef:    "sha256:2",
		Annotations: map[string]string{runtime.AnnotationHash: "not hex", runtime.AnnotationRestartCount: "-1"},
	}, "x", "")
	want := runtime.ContainerStatus{
		ID: runtime.ContainerID{Type: "x", ID: "c1"}, Name: "meta", Attempt: 9, ImageID: "sha256:2", ImageRef: "sha256:2",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestConversionTakesNothing(t *testing.T) {
	if got := ContainerStatus(nil, "x", ""); got.ID.ID != "" || got.Resources != nil || !got.CreatedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	if got := SandboxStatus(nil); got.Network != nil {
		t.Errorf("%+v", got)
	}
}

func TestStates(t *testing.T) {
	for in, want := range map[runtimeapi.ContainerState]runtime.ContainerState{
		runtimeapi.ContainerState_CONTAINER_CREATED: runtime.ContainerCreated,
		runtimeapi.ContainerState_CONTAINER_RUNNING: runtime.ContainerRunning,
		runtimeapi.ContainerState_CONTAINER_EXITED:  runtime.ContainerExited,
		runtimeapi.ContainerState_CONTAINER_UNKNOWN: runtime.ContainerUnknown,
		runtimeapi.ContainerState(42):               runtime.ContainerUnknown,
	} {
		if got := ContainerState(in); got != want {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
	for in, want := range map[runtimeapi.NamespaceMode]runtime.NamespaceMode{
		runtimeapi.NamespaceMode_POD:       runtime.NamespacePod,
		runtimeapi.NamespaceMode_CONTAINER: runtime.NamespaceContainer,
		runtimeapi.NamespaceMode_NODE:      runtime.NamespaceNode,
		runtimeapi.NamespaceMode_TARGET:    runtime.NamespaceTarget,
	} {
		if got := namespaceMode(in); got != want {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
}

func TestSandboxNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		in   *runtimeapi.PodSandboxNetworkStatus
		mode runtime.NamespaceMode
		want *runtime.SandboxNetwork
	}{
		"none reported":      {nil, runtime.NamespacePod, nil},
		"no address":         {&runtimeapi.PodSandboxNetworkStatus{}, runtime.NamespacePod, &runtime.SandboxNetwork{}},
		"dual stack":         {&runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::1"}}}, runtime.NamespacePod, &runtime.SandboxNetwork{IPs: []string{"10.0.0.1", "fd00::1"}}},
		"not addresses":      {&runtimeapi.PodSandboxNetworkStatus{Ip: "x", AdditionalIps: []*runtimeapi.PodIP{{}, nil}}, runtime.NamespacePod, &runtime.SandboxNetwork{}},
		"the node's network": {&runtimeapi.PodSandboxNetworkStatus{Ip: "192.168.0.1"}, runtime.NamespaceNode, &runtime.SandboxNetwork{}},
	} {
		if got := sandboxNetwork(tc.in, tc.mode); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
