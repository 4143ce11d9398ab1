package container_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/syncpod/container"
)

func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func security(t *testing.T, in container.Input) *runtimeapi.LinuxContainerSecurityContext {
	t.Helper()
	return mustConfig(t, in).Linux.SecurityContext
}

func TestSeccomp(t *testing.T) {
	local := &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("a/b.json")}
	unconfined := &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
	for name, tc := range map[string]struct {
		pod, own *v1.SeccompProfile
		node     container.Node
		want     string
	}{
		"none":                 {nil, nil, container.Node{}, "Unconfined "},
		"the node's default":   {nil, nil, container.Node{SeccompDefault: true}, "RuntimeDefault "},
		"unconfined":           {nil, unconfined, container.Node{SeccompDefault: true}, "Unconfined "},
		"the pod's":            {local, nil, container.Node{}, "Localhost /var/lib/kubelet/seccomp/a/b.json"},
		"its own":              {local, unconfined, container.Node{}, "Unconfined "},
		"below another root":   {nil, local, container.Node{SeccompRoot: "/etc/s/"}, "Localhost /etc/s/a/b.json"},
		"the runtime's, asked": {unconfined, &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}, container.Node{}, "RuntimeDefault "},
	} {
		in := of(v1.Container{SecurityContext: &v1.SecurityContext{SeccompProfile: tc.own}})
		in.Pod.Spec.SecurityContext = &v1.PodSecurityContext{SeccompProfile: tc.pod}
		tc.node.MemoryBytes = 1
		in.Node = tc.node
		got := security(t, in).Seccomp
		if text := got.ProfileType.String() + " " + got.LocalhostRef; text != tc.want {
			t.Errorf("%s: %s, want %s", name, text, tc.want)
		}
	}
}

func TestAppArmor(t *testing.T) {
	profile := func(t v1.AppArmorProfileType) *v1.AppArmorProfile { return &v1.AppArmorProfile{Type: t} }
	const key = "container.apparmor.security.beta.kubernetes.io/c"
	file := map[string]string{"kubernetes.io/config.source": "file"}
	with := func(m map[string]string, value string) map[string]string {
		annotations := map[string]string{key: value}
		for k, v := range m {
			annotations[k] = v
		}
		return annotations
	}
	for name, tc := range map[string]struct {
		pod, own    *v1.AppArmorProfile
		annotations map[string]string
		want        string
	}{
		"none":                        {nil, nil, nil, "- "},
		"the pod's":                   {profile("Unconfined"), nil, nil, "Unconfined unconfined"},
		"its own":                     {profile("Unconfined"), profile("RuntimeDefault"), nil, "RuntimeDefault runtime/default"},
		"local":                       {nil, &v1.AppArmorProfile{Type: "Localhost", LocalhostProfile: ptr("x")}, nil, "Localhost localhost/x"},
		"annotated, not of the API":   {profile("Unconfined"), nil, with(file, "runtime/default"), "RuntimeDefault runtime/default"},
		"annotated local":             {nil, nil, with(file, "localhost/y"), "Localhost localhost/y"},
		"annotated unconfined":        {nil, nil, with(file, "unconfined"), "Unconfined unconfined"},
		"field before annotation":     {nil, profile("Unconfined"), with(file, "localhost/y"), "Unconfined unconfined"},
		"annotated, of the API":       {nil, nil, with(map[string]string{"kubernetes.io/config.source": "api"}, "unconfined"), "- "},
		"annotated, source not known": {nil, nil, with(nil, "unconfined"), "- "},
		"annotated with nothing":      {nil, nil, with(file, ""), "- "},
		"annotation no profile":       {nil, nil, with(file, "unconfned"), "error"},
	} {
		in := of(v1.Container{SecurityContext: &v1.SecurityContext{AppArmorProfile: tc.own}})
		in.Pod.Annotations, in.Pod.Spec.SecurityContext = tc.annotations, &v1.PodSecurityContext{AppArmorProfile: tc.pod}
		if got := appArmorText(container.GenerateContainerConfig(in)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func appArmorText(c *runtimeapi.ContainerConfig, err error) string {
	if err != nil {
		return "error"
	}
	security := c.Linux.SecurityContext
	//lint:ignore SA1019 set for runtimes that know no other
	name := security.ApparmorProfile
	if security.Apparmor == nil {
		return "- " + name
	}
	return security.Apparmor.ProfileType.String() + " " + name
}

func TestTargetContainer(t *testing.T) {
	for name, tc := range map[string]struct {
		spec v1.PodSpec
		want string
	}{
		"processes of its own": {v1.PodSpec{}, "TARGET k9"},
		"shared in the pod":    {v1.PodSpec{ShareProcessNamespace: ptr(true)}, "POD "},
		"the node's":           {v1.PodSpec{HostPID: true}, "NODE "},
	} {
		in := of(v1.Container{})
		tc.spec.Containers = in.Pod.Spec.Containers
		in.Pod.Spec, in.TargetID = tc.spec, "k9"
		ns := security(t, in).NamespaceOptions
		if got := ns.Pid.String() + " " + ns.TargetId; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if ns := security(t, of(v1.Container{})).NamespaceOptions; ns.Pid != runtimeapi.NamespaceMode_CONTAINER {
		t.Errorf("no target: %s, want CONTAINER", ns.Pid)
	}
}

func TestUser(t *testing.T) {
	for name, tc := range map[string]struct {
		own   *int64
		image container.Image
		want  string
	}{
		"the spec's":           {ptr[int64](7), container.Image{UID: ptr[int64](8), Username: "x"}, "7 "},
		"the image's number":   {nil, container.Image{UID: ptr[int64](8), Username: "x"}, "8 "},
		"the image's name":     {nil, container.Image{Username: "x"}, "- x"},
		"root if nothing says": {nil, container.Image{}, "0 "},
	} {
		in := of(v1.Container{SecurityContext: &v1.SecurityContext{RunAsUser: tc.own}})
		in.Image = tc.image
		got, s := "-", security(t, in)
		if s.RunAsUser != nil {
			got = fmt.Sprint(s.RunAsUser.Value)
		}
		if got += " " + s.RunAsUsername; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestProcPaths(t *testing.T) {
	for mount, masked := range map[string]bool{"": true, "Default": true, "Unmasked": false} {
		in := of(v1.Container{SecurityContext: &v1.SecurityContext{ProcMount: ptr(v1.ProcMountType(mount))}})
		in.Node.MaskedPaths = []string{"/sys/x"}
		s := security(t, in)
		if slices.Contains(s.MaskedPaths, "/proc/kcore") != masked || slices.Contains(s.MaskedPaths, "/sys/x") != masked ||
			slices.Contains(s.ReadonlyPaths, "/proc/sys") != masked {
			t.Errorf("%q: masked %v, read-only %v; want them: %v", mount, s.MaskedPaths, s.ReadonlyPaths, masked)
		}
	}
}

func TestNoNewPrivileges(t *testing.T) {
	for allow, want := range map[*bool]bool{nil: false, ptr(true): false, ptr(false): true} {
		in := of(v1.Container{SecurityContext: &v1.SecurityContext{AllowPrivilegeEscalation: allow}})
		if got := security(t, in).NoNewPrivs; got != want {
			t.Errorf("no new privileges %v, want %v", got, want)
		}
	}
}

func TestHugePagesAndGroupKill(t *testing.T) {
	in := of(v1.Container{Resources: v1.ResourceRequirements{Limits: list("hugepages-2Mi", "6Mi")}})
	in.Node.HugePageSizes = []string{"2MB", "1GB", "64KB"}
	got := map[string]uint64{}
	r := mustConfig(t, in).Linux.Resources
	for _, h := range r.HugepageLimits {
		got[h.PageSize] = h.Limit
	}
	if want := map[string]uint64{"2MB": 6 << 20, "1GB": 0, "64KB": 0}; !reflect.DeepEqual(got, want) || r.Unified != nil {
		t.Errorf("limits %v, unified %v; want %v and nothing", got, r.Unified, want)
	}
	in.Node.GroupOOMKill = true
	if got := mustConfig(t, in).Linux.Resources.Unified["memory.oom.group"]; got != "1" {
		t.Errorf("memory.oom.group %q, want 1", got)
	}
}

// A field of the container's security context replaces the pod's as a whole.
func TestContainerBeforePod(t *testing.T) {
	in := of(v1.Container{SecurityContext: &v1.SecurityContext{RunAsGroup: ptr[int64](1), SELinuxOptions: &v1.SELinuxOptions{Level: "own"}}})
	in.Pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr[int64](2), RunAsGroup: ptr[int64](2),
		SELinuxOptions: &v1.SELinuxOptions{Level: "pod", Type: "pod"}}
	s := security(t, in)
	if s.RunAsUser.Value != 2 || s.RunAsGroup.Value != 1 || s.SelinuxOptions.Level != "own" || s.SelinuxOptions.Type != "" {
		t.Errorf("user %v, group %v, SELinux %v; want the pod's user and its own group and label", s.RunAsUser, s.RunAsGroup, s.SelinuxOptions)
	}
}

func TestPodLevelLimitsHoldForContainersWithout(t *testing.T) {
	in := of(v1.Container{Resources: v1.ResourceRequirements{Limits: list("cpu", "1")}})
	in.Pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("cpu", "4", "memory", "1Gi")}
	in.Pod.Spec.Containers[0].Resources.Limits["memory"] = resource.MustParse("0")
	r := mustConfig(t, in).Linux.Resources
	if r.CpuQuota != 100000 || r.MemoryLimitInBytes != 1<<30 {
		t.Errorf("quota %d, memory %d; want its own CPU limit and the pod's memory limit", r.CpuQuota, r.MemoryLimitInBytes)
	}
}

func oom(t *testing.T, in container.Input) int64 {
	t.Helper()
	return mustConfig(t, in).Linux.Resources.OomScoreAdj
}

func withMemory(name, request string) v1.Container {
	return v1.Container{Name: name, Image: "i", Resources: v1.ResourceRequirements{Requests: list("memory", request)}}
}

func TestOOMScoreByQualityOfService(t *testing.T) {
	both, equal := list("cpu", "1", "memory", "1Gi"), list("cpu", "1000m", "memory", "1024Mi")
	for name, tc := range map[string]struct {
		resources v1.ResourceRequirements
		pod       *v1.ResourceRequirements
		status    v1.PodQOSClass
		want      int64
	}{
		"nothing":                      {v1.ResourceRequirements{}, nil, "", 1000},
		"zero is nothing":              {v1.ResourceRequirements{Requests: list("cpu", "0")}, nil, "", 1000},
		"other resources do not count": {v1.ResourceRequirements{Limits: list("ephemeral-storage", "1Gi")}, nil, "", 1000},
		"guaranteed":                   {v1.ResourceRequirements{Requests: equal, Limits: both}, nil, "", -997},
		"limits alone":                 {v1.ResourceRequirements{Limits: both}, nil, "", 999},
		"less than the limit":          {v1.ResourceRequirements{Requests: list("cpu", "1", "memory", "512Mi"), Limits: both}, nil, "", 985},
		"one of two":                   {v1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("cpu", "1")}, nil, "", 999},
		"all of the node":              {v1.ResourceRequirements{Requests: list("memory", "32Gi")}, nil, "", 3},
		"more than the node":           {v1.ResourceRequirements{Requests: list("memory", "9Ei")}, nil, "", 3},
		"nearly all of the node":       {v1.ResourceRequirements{Requests: list("memory", "32767Mi")}, nil, "", 3},
		"half of the node":             {v1.ResourceRequirements{Requests: list("memory", "16Gi")}, nil, "", 500},
		"what the status says":         {v1.ResourceRequirements{}, nil, v1.PodQOSGuaranteed, -997},
		"pod guaranteed as a whole":    {v1.ResourceRequirements{}, &v1.ResourceRequirements{Requests: equal, Limits: both}, "", -997},
		"pod's memory shared out":      {v1.ResourceRequirements{Requests: list("memory", "8Gi")}, &v1.ResourceRequirements{Requests: list("memory", "16Gi")}, "", 500},
		"nothing left to share":        {v1.ResourceRequirements{Requests: list("memory", "16Gi")}, &v1.ResourceRequirements{Requests: list("memory", "8Gi")}, "", 500},
	} {
		in := of(v1.Container{Resources: tc.resources})
		in.Pod.Spec.Resources, in.Pod.Status.QOSClass = tc.pod, tc.status
		if got := oom(t, in); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	limited := of(v1.Container{Resources: v1.ResourceRequirements{Requests: equal, Limits: both}})
	limited.Pod.Spec.InitContainers = []v1.Container{withMemory("i", "1Gi")}
	if got := oom(t, limited); got != 969 {
		t.Errorf("guaranteed but for an init container: %d, want 969", got)
	}
	critical := of(v1.Container{})
	critical.Pod.Spec.PriorityClassName = "system-node-critical"
	if got := oom(t, critical); got != -997 {
		t.Errorf("critical for the node: %d, want -997", got)
	}
}

func TestOOMScoreOfSidecars(t *testing.T) {
	in := of(withMemory("c", "4Gi"))
	in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, withMemory("d", "8Gi"))
	sidecar, initial := withMemory("s", "1Gi"), withMemory("i", "1Gi")
	sidecar.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	in.Pod.Spec.InitContainers = []v1.Container{sidecar, initial}
	for name, want := range map[string]int64{"c": 875, "d": 750, "s": 875, "i": 969} {
		in.Name = name
		if got := oom(t, in); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	in.Pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("memory", "19Gi")}
	in.Name = "s" // 6 GiB more for the three that run together: 2 GiB each.
	if got := oom(t, in); got != 813 {
		t.Errorf("with the pod's memory shared out: %d, want 813", got)
	}
}
