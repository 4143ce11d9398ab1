package status_test

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// amounts returns amounts of CPU and memory. An empty value omits the resource.
func amounts(cpu, memory string) v1.ResourceList {
	list := v1.ResourceList{}
	for name, value := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if value != "" {
			list[name] = resource.MustParse(value)
		}
	}
	return list
}

// texts returns a list as text.
func texts(list v1.ResourceList) map[v1.ResourceName]string {
	all := map[v1.ResourceName]string{}
	for name, q := range list {
		all[name] = q.String()
	}
	return all
}

// app returns an Input with one running container, app, with limits.
func app(cpu, memory string) apistatus.Input {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0)), Now: noon}
	in.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: amounts(cpu, memory), Requests: amounts(cpu, memory)}
	return in
}

func wantResources(t *testing.T, what string, s v1.PodStatus, limits, requests, allocated v1.ResourceList) {
	t.Helper()
	k := s.ContainerStatuses[0]
	if k.Resources == nil {
		t.Fatalf("%s: no resources", what)
	}
	for _, list := range []struct {
		name      string
		got, want v1.ResourceList
	}{{"limits", k.Resources.Limits, limits}, {"requests", k.Resources.Requests, requests}, {"allocated", k.AllocatedResources, allocated}} {
		if !reflect.DeepEqual(texts(list.got), texts(list.want)) {
			t.Errorf("%s: %s %v, want %v", what, list.name, texts(list.got), texts(list.want))
		}
	}
}

// During a resize, the allocated and the actual resources differ.
func TestResourcesInForce(t *testing.T) {
	set := func(r *runtime.ContainerResources) func(*apistatus.Input) {
		return func(in *apistatus.Input) { in.Status.Containers[0].Resources = r }
	}
	small := &runtime.ContainerResources{CPURequest: 100, CPULimit: 1, MemoryRequest: 1 << 20}
	for _, tc := range []struct {
		name                        string
		change                      func(*apistatus.Input)
		limits, requests, allocated v1.ResourceList
	}{
		{"nothing is known", func(*apistatus.Input) {}, amounts("2", "1G"), amounts("2", "1G"), amounts("2", "1G")},
		{"what was set holds", set(small), amounts("1m", ""), amounts("100m", "1Mi"), amounts("2", "1G")},
		{"the allocated resources, before the reported ones", func(in *apistatus.Input) {
			set(small)(in)
			in.Status.Containers[0].Reported = &runtime.ReportedResources{CPULimit: new(int64(10)), MemoryLimit: new(int64(5))}
		}, amounts("1m", ""), amounts("100m", "1Mi"), amounts("2", "1G")},
		{"as much is written the same", set(&runtime.ContainerResources{CPURequest: 2000, CPULimit: 2000, MemoryRequest: 1e9, MemoryLimit: 1e9}),
			amounts("2", "1G"), amounts("2", "1G"), amounts("2", "1G")},
		{"it has exited", func(in *apistatus.Input) {
			set(small)(in)
			in.Status.Containers[0].State = runtime.ContainerExited
		}, amounts("2", "1G"), amounts("2", "1G"), amounts("2", "1G")},
		{"the spec has no list", func(in *apistatus.Input) {
			set(small)(in)
			in.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{}
		}, nil, nil, nil},
	} {
		in := app("2", "1G")
		tc.change(&in)
		wantResources(t, tc.name, apistatus.GeneratePodStatus(in), tc.limits, tc.requests, tc.allocated)
	}
}

func TestContainerThatIsNotMadeHasNoResources(t *testing.T) {
	in := app("2", "1G")
	in.Status = nil
	if k := apistatus.GeneratePodStatus(in).ContainerStatuses[0]; k.Resources != nil || k.AllocatedResources != nil || k.User != nil {
		t.Errorf("%+v", k)
	}
}

// A resize that the runtime does not know is not reported as in effect, and resources that were reported for another
// instance do not count for this one.
func TestResourcesReportedBefore(t *testing.T) {
	in := app("1", "1Gi")
	next(&in)
	in.Pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: amounts("2", "2Gi"), Requests: amounts("2", "2Gi")}
	wantResources(t, "the same", apistatus.GeneratePodStatus(in), amounts("1", "1Gi"), amounts("1", "1Gi"), amounts("2", "2Gi"))
	in.Status = node(running("app", "a1", 1))
	wantResources(t, "another", apistatus.GeneratePodStatus(in), amounts("2", "2Gi"), amounts("2", "2Gi"), amounts("2", "2Gi"))
}

func TestWhoRunsAndHowItStops(t *testing.T) {
	in := app("", "")
	k := &in.Status.Containers[0]
	k.User, k.StopSignal = &runtime.ContainerUser{UID: 7, GID: 8, Groups: []int64{9}}, "SIGQUIT"
	got := apistatus.GeneratePodStatus(in).ContainerStatuses[0]
	if want := (&v1.LinuxContainerUser{UID: 7, GID: 8, SupplementalGroups: []int64{9}}); !reflect.DeepEqual(got.User.Linux, want) {
		t.Errorf("user %+v, want %+v", got.User.Linux, want)
	}
	if got.StopSignal == nil || *got.StopSignal != v1.SIGQUIT {
		t.Errorf("stop signal %v", got.StopSignal)
	}
	got.User.Linux.SupplementalGroups[0] = 0
	if k.User.Groups[0] != 9 {
		t.Error("the status shares its groups with what was handed in")
	}
}

// Mounts are reported even before the container is created.
func TestVolumeMounts(t *testing.T) {
	in := app("", "")
	enabled, possible := v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible
	in.Pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "data", MountPath: "/data"},
		{Name: "conf", MountPath: "/conf", ReadOnly: true},
		{Name: "all", MountPath: "/all", ReadOnly: true, RecursiveReadOnly: &enabled},
		{Name: "may", MountPath: "/may", ReadOnly: true, RecursiveReadOnly: &possible},
	}
	mode := func(m v1.RecursiveReadOnlyMode) *v1.RecursiveReadOnlyMode { return &m }
	want := []v1.VolumeMountStatus{
		{Name: "data", MountPath: "/data"},
		{Name: "conf", MountPath: "/conf", ReadOnly: true, RecursiveReadOnly: mode(v1.RecursiveReadOnlyDisabled)},
		{Name: "all", MountPath: "/all", ReadOnly: true, RecursiveReadOnly: mode(v1.RecursiveReadOnlyEnabled)},
		{Name: "may", MountPath: "/may", ReadOnly: true, RecursiveReadOnly: mode(v1.RecursiveReadOnlyDisabled)},
	}
	status := in.Status
	in.Status = nil
	if got := next(&in).ContainerStatuses[0].VolumeMounts; !reflect.DeepEqual(got, want) {
		t.Errorf("before it is made: %+v", got)
	}
	in.Status = status
	if got := next(&in).ContainerStatuses[0].VolumeMounts; !reflect.DeepEqual(got, want) {
		t.Errorf("when it runs: %+v", got)
	}
	in.Status.Containers[0].State = runtime.ContainerExited
	in.RecursiveReadOnly = true
	if got := apistatus.GeneratePodStatus(in).ContainerStatuses[0].VolumeMounts; !reflect.DeepEqual(got, want) {
		t.Errorf("when it has exited: %+v", got)
	}
	in.Previous, in.Status = nil, nil
	want[3].RecursiveReadOnly = mode(v1.RecursiveReadOnlyEnabled)
	if got := apistatus.GeneratePodStatus(in).ContainerStatuses[0].VolumeMounts; !reflect.DeepEqual(got, want) {
		t.Errorf("where the runtime can: %+v", got)
	}
}

func TestPodLevelResources(t *testing.T) {
	in := app("", "")
	if s := apistatus.GeneratePodStatus(in); s.Resources != nil || s.AllocatedResources != nil {
		t.Errorf("a pod without any has %+v, allocated %v", s.Resources, s.AllocatedResources)
	}
	in.Pod.Spec.Resources = &v1.ResourceRequirements{Limits: amounts("2", "2Gi"), Requests: amounts("1", "1Gi")}
	s := apistatus.GeneratePodStatus(in)
	if !reflect.DeepEqual(s.Resources, in.Pod.Spec.Resources) || !reflect.DeepEqual(s.AllocatedResources, in.Pod.Spec.Resources.Requests) {
		t.Errorf("%+v, allocated %v, want %v and %v", s.Resources, s.AllocatedResources, in.Pod.Spec.Resources, in.Pod.Spec.Resources.Requests)
	}
	s.Resources.Limits[v1.ResourceCPU], s.AllocatedResources[v1.ResourceCPU] = resource.MustParse("9"), resource.MustParse("9")
	if q := in.Pod.Spec.Resources.Requests[v1.ResourceCPU]; q.Value() != 1 {
		t.Error("the pod was written to")
	}
}

// The status shares no list with the input.
func TestResourcesAreTheStatusOwn(t *testing.T) {
	in := app("1", "1Gi")
	next(&in)
	before := in.Previous.DeepCopy()
	s := apistatus.GeneratePodStatus(in)
	k := &s.ContainerStatuses[0]
	for _, list := range []v1.ResourceList{k.AllocatedResources, k.Resources.Limits, k.Resources.Requests} {
		list[v1.ResourceCPU] = resource.MustParse("9")
	}
	if r := in.Pod.Spec.Containers[0].Resources; r.Limits.Cpu().Value() != 1 || r.Requests.Cpu().Value() != 1 || !reflect.DeepEqual(in.Previous, before) {
		t.Error("what was handed in was written to")
	}
}

// A container's devices are reported as given, without sharing memory.
func TestDevices(t *testing.T) {
	pod := podtest.Pod("web", podtest.InitContainer("proxy", podtest.Sidecar), podtest.Container("app"), podtest.Container("beside"))
	gpu := func(health v1.ResourceHealthStatus) []v1.ResourceStatus {
		return []v1.ResourceStatus{{Name: "example.com/gpu", Resources: []v1.ResourceHealth{{ResourceID: "gpu-1", Health: health, Message: new("hot")}}}}
	}
	in := apistatus.Input{Pod: pod, Devices: map[string][]v1.ResourceStatus{"app": gpu(v1.ResourceHealthStatusUnhealthy), "proxy": gpu(v1.ResourceHealthStatusUnknown), "gone": nil}}
	s := apistatus.GeneratePodStatus(in)
	if !reflect.DeepEqual(s.ContainerStatuses[0].AllocatedResourcesStatus, gpu(v1.ResourceHealthStatusUnhealthy)) ||
		!reflect.DeepEqual(s.InitContainerStatuses[0].AllocatedResourcesStatus, gpu(v1.ResourceHealthStatusUnknown)) || s.ContainerStatuses[1].AllocatedResourcesStatus != nil {
		t.Errorf("%+v, %+v, want one unhealthy, one unknown and one without devices", s.InitContainerStatuses, s.ContainerStatuses)
	}
	*s.ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0].Message = "changed"
	if *in.Devices["app"][0].Resources[0].Message != "hot" {
		t.Error("the input was written to")
	}
	in.Previous, in.Devices = &s, nil
	if s = apistatus.GeneratePodStatus(in); s.ContainerStatuses[0].AllocatedResourcesStatus != nil {
		t.Errorf("devices that are gone are reported: %+v", s.ContainerStatuses[0].AllocatedResourcesStatus)
	}
}

// A pod's allocated resources are the most that it requests at any time, with its overhead, or its pod-level
// requests (KEP-5419).
func TestAllocatedResourcesOfThePod(t *testing.T) {
	pod := podtest.Pod("web", podtest.InitContainer("init", podtest.Requests("cpu=3 memory=1Mi")),
		podtest.Container("a", podtest.Requests("cpu=1 memory=2Mi")), podtest.Container("b", podtest.Requests("cpu=1 memory=4Mi")))
	pod.Spec.Overhead = podtest.Resources("memory=1Mi")
	want := func(about, cpu, memory string, whole *v1.ResourceRequirements) {
		t.Helper()
		s := apistatus.GeneratePodStatus(apistatus.Input{Pod: pod})
		if got := s.AllocatedResources; len(got) != 2 || got.Cpu().String() != cpu || got.Memory().String() != memory || !reflect.DeepEqual(s.Resources, whole) {
			t.Errorf("%s: allocated %v, want %s and %s; resources %v", about, got, cpu, memory, s.Resources)
		}
	}
	want("of containers", "3", "7Mi", nil)
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}}
	want("as a whole", "4", "7Mi", pod.Spec.Resources)
	pod.Spec = v1.PodSpec{Containers: []v1.Container{{Name: "a"}}}
	if s := apistatus.GeneratePodStatus(apistatus.Input{Pod: pod}); s.AllocatedResources != nil || s.Resources != nil {
		t.Errorf("of nothing: %v, %v", s.AllocatedResources, s.Resources)
	}
}
