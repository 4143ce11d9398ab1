package reader

import (
	"reflect"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
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
		User:       &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 7, Gid: 8, SupplementalGroups: []int64{9}}},
		StopSignal: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
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
		Reported:   &runtime.ReportedResources{CPURequest: new(int64(100)), CPULimit: new(int64(500)), MemoryLimit: new(int64(1 << 20))},
		User:       &runtime.ContainerUser{UID: 7, GID: 8, Groups: []int64{9}},
		StopSignal: "SIGRTMIN+3",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A container without podsync's labels and annotations, with the times of a container that never ran, from a runtime
// older than ImageId.
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

func TestConversionAllocatesNothing(t *testing.T) {
	if got := ContainerStatus(nil, "x", ""); got.ID.ID != "" || got.Resources != nil || !got.CreatedAt.IsZero() {
		t.Errorf("%+v, want no ID, resources or creation time", got)
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
		if got := containerState(in); got != want {
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
		"none reported": {nil, runtime.NamespacePod, nil},
		"no address":    {&runtimeapi.PodSandboxNetworkStatus{}, runtime.NamespacePod, &runtime.SandboxNetwork{}},
		"dual stack": {&runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.1", AdditionalIps: []*runtimeapi.PodIP{{Ip: "fd00::1"}}},
			runtime.NamespacePod, &runtime.SandboxNetwork{IPs: []string{"10.0.0.1", "fd00::1"}}},
		"not addresses":      {&runtimeapi.PodSandboxNetworkStatus{Ip: "x", AdditionalIps: []*runtimeapi.PodIP{{}, nil}}, runtime.NamespacePod, &runtime.SandboxNetwork{}},
		"the node's network": {&runtimeapi.PodSandboxNetworkStatus{Ip: "192.168.0.1"}, runtime.NamespaceNode, &runtime.SandboxNetwork{}},
	} {
		if got := sandboxNetwork(tc.in, tc.mode); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// Values that a runtime has not set, or that an older runtime does not know, are not reported.
func TestReportedResources(t *testing.T) {
	for name, tc := range map[string]struct {
		linux *runtimeapi.LinuxContainerResources
		want  *runtime.ReportedResources
	}{
		"nothing":          {nil, nil},
		"all zero":         {&runtimeapi.LinuxContainerResources{CpuPeriod: 100000}, nil},
		"no limits":        {&runtimeapi.LinuxContainerResources{CpuShares: 2, CpuQuota: -1, CpuPeriod: 100000, MemoryLimitInBytes: -1}, &runtime.ReportedResources{CPURequest: new(int64(2))}},
		"a CPU":            {&runtimeapi.LinuxContainerResources{CpuShares: 1024}, &runtime.ReportedResources{CPURequest: new(int64(1000))}},
		"rounded up":       {&runtimeapi.LinuxContainerResources{CpuShares: 10}, &runtime.ReportedResources{CPURequest: new(int64(10))}},
		"quota, no period": {&runtimeapi.LinuxContainerResources{CpuQuota: 1000}, nil},
		"a period of 20ms": {&runtimeapi.LinuxContainerResources{CpuQuota: 10000, CpuPeriod: 20000}, &runtime.ReportedResources{CPULimit: new(int64(500))}},
		"more than fits":   {&runtimeapi.LinuxContainerResources{CpuQuota: 1 << 62, CpuPeriod: 1 << 60}, &runtime.ReportedResources{CPULimit: new(int64(4000))}},
	} {
		if got := reportedResources(tc.linux); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
	for signal, want := range map[runtimeapi.Signal]string{
		0: "", 999: "", runtimeapi.Signal_SIGNAL_SIGTERM: "SIGTERM", runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14: "SIGRTMAX-14",
	} {
		if got := signalName(signal); got != want {
			t.Errorf("signal %d: %q, want %q", signal, got, want)
		}
	}
}

// An image or a container chooses texts of any length, and the runtime may repeat them.
func TestTextsOfContainersAreBounded(t *testing.T) {
	long := "begins" + strings.Repeat("x", 1<<20) + "ends"
	got := ContainerStatus(&runtimeapi.ContainerStatus{Reason: long, Message: long}, "critest", "box")
	if len(got.Message) > foreign.Max || !strings.HasSuffix(got.Message, "ends") || len(got.Reason) > foreign.MaxWord {
		t.Errorf("a reason of %d bytes, a message of %d bytes", len(got.Reason), len(got.Message))
	}
	got = ContainerStatus(&runtimeapi.ContainerStatus{
		Image: &runtimeapi.ImageSpec{Image: long}, ImageId: long, ImageRef: long + "\x1b[2J",
		User: &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{SupplementalGroups: make([]int64, 1<<16)}},
	}, "critest", "box")
	if max(len(got.Image), len(got.ImageID), len(got.ImageRef)) > foreign.Max || strings.Contains(got.ImageRef, "\x1b") || len(got.User.Groups) != maxGroups || cap(got.User.Groups) > 2*maxGroups {
		t.Errorf("an image of %d, %d and %q bytes, %d groups", len(got.Image), len(got.ImageID), got.ImageRef, len(got.User.Groups))
	}
	if got := ContainerStatus(&runtimeapi.ContainerStatus{Message: "two\nlines\x1b[2J"}, "critest", "box").Message; got != `two`+"\n"+`lines\x1b[2J` {
		t.Errorf("%q", got)
	}
}
