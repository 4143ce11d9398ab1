package container_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	environ "github.com/podsync/podsync/syncpod/container/env"
)

func ptr[T any](v T) *T { return &v }

// of returns the input for a pod with one regular container, named c.
func of(c v1.Container) container.Input {
	c.Name = "c"
	if c.Image == "" {
		c.Image = "repo/img:v1"
	}
	return container.Input{
		Pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u-1"},
			Spec:       v1.PodSpec{Containers: []v1.Container{c}},
		},
		Name: "c",
		Node: container.Node{MemoryBytes: 32 << 30},
	}
}

func mustConfig(t *testing.T, in container.Input) *runtimeapi.ContainerConfig {
	t.Helper()
	return must.Get(container.GenerateContainerConfig(in))(t)
}

func TestConfigErrorsNameTheField(t *testing.T) {
	change := func(f func(*container.Input)) container.Input {
		in := of(v1.Container{})
		f(&in)
		return in
	}
	spec := func(c v1.Container) container.Input { return of(c) }
	seccomp := func(p v1.SeccompProfile) container.Input {
		return spec(v1.Container{SecurityContext: &v1.SecurityContext{SeccompProfile: &p}})
	}
	appArmor := func(p v1.AppArmorProfile) container.Input {
		return spec(v1.Container{SecurityContext: &v1.SecurityContext{AppArmorProfile: &p}})
	}
	for _, tc := range []struct {
		in   container.Input
		want string
	}{
		{container.Input{}, "Input.Pod"},
		{change(func(in *container.Input) { in.Node.MemoryBytes = 0 }), "Input.Node.MemoryBytes"},
		{change(func(in *container.Input) { in.Name = "x" }), `container "x" of pod ns/p: the pod has no container "x"`},
		{change(func(in *container.Input) { in.Name = "" }), "no container"},
		{change(func(in *container.Input) { in.Name, in.Pod.Spec.Containers[0].Name = "..", ".." }), "container name"},
		{change(func(in *container.Input) { in.Name, in.Pod.Spec.Containers[0].Name = "a/b", "a/b" }), "container name"},
		{change(func(in *container.Input) { in.Pod.Spec.HostUsers = ptr(false) }), "spec.hostUsers"},
		{change(func(in *container.Input) { in.Node.HugePageSizes = []string{"2MiB"} }), "HugePageSizes"},
		{change(func(in *container.Input) { in.Node.HugePageSizes = []string{"MB"} }), "HugePageSizes"},
		{change(func(in *container.Input) {
			in.Pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicy("x"))}
		}), "supplementalGroupsPolicy"},
		{spec(v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: ptr(v1.Signal("SIGNOPE"))}}), "lifecycle.stopSignal"},
		{spec(v1.Container{SecurityContext: &v1.SecurityContext{ProcMount: ptr(v1.ProcMountType("x"))}}), "procMount"},
		{seccomp(v1.SeccompProfile{Type: "x"}), "seccompProfile.type"},
		{seccomp(v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost}), "seccompProfile.localhostProfile"},
		{seccomp(v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("../../etc/x")}), "seccompProfile.localhostProfile"},
		{seccomp(v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("/etc/x")}), "seccompProfile.localhostProfile"},
		{appArmor(v1.AppArmorProfile{Type: "x"}), "appArmorProfile.type"},
		{appArmor(v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}), "appArmorProfile.localhostProfile"},
		{appArmor(v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr(" ")}), "appArmorProfile.localhostProfile"},
	} {
		got, err := container.GenerateContainerConfig(tc.in)
		if err == nil || !strings.Contains(err.Error(), tc.want) || got != nil {
			t.Errorf("%v, error %v; want an error with %q", got, err, tc.want)
		}
	}
}

func TestEveryKindOfContainer(t *testing.T) {
	in := of(v1.Container{Image: "regular"})
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "i", Image: "init"}}
	in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "ephemeral"}}}
	for name, image := range map[string]string{"c": "regular", "i": "init", "e": "ephemeral"} {
		in.Name = name
		got := mustConfig(t, in)
		if got.Metadata.Name != name || got.Image.UserSpecifiedImage != image || got.Labels[runtime.LabelContainerName] != name {
			t.Errorf("%s: %v, want Name %v and UserSpecifiedImage %v and %v", name, got, name, image, name)
		}
	}
}

func TestCommandSeesTheEnvironment(t *testing.T) {
	in := of(v1.Container{Command: []string{"$(A)", "$(NOPE)"}, Args: []string{"--x=$(A)$$(A)"}})
	in.Env = []environ.Var{{Name: "A", Value: "a"}}
	got := mustConfig(t, in)
	if !slices.Equal(got.Command, []string{"a", "$(NOPE)"}) || !slices.Equal(got.Args, []string{"--x=a$(A)"}) {
		t.Errorf("command %q, args %q", got.Command, got.Args)
	}
	if len(got.Envs) != 1 || got.Envs[0].Key != "A" || string(got.Envs[0].Value) != "a" {
		t.Errorf("env %v, want only %q with the value %q", got.Envs, "A", "a")
	}
}

func TestCallsArePassedOn(t *testing.T) {
	in := fullInput()
	c := &in.Pod.Spec.Containers[0]
	c.StdinOnce, c.TTY = true, true
	got := mustConfig(t, in)
	if len(got.Mounts) != 1 || got.Mounts[0].HostPath != in.Mounts[0].HostPath || len(got.Devices) != 1 || got.Devices[0] != in.Devices[0] ||
		len(got.CDIDevices) != 1 || got.CDIDevices[0] != in.CDIDevices[0] {
		t.Errorf("mounts %v, devices %v, CDI devices %v; want those given", got.Mounts, got.Devices, got.CDIDevices)
	}
	if got.Stdin || !got.StdinOnce || !got.Tty || got.WorkingDir != "/" {
		t.Errorf("stdin %v, once %v, tty %v, in %q; want what the spec says", got.Stdin, got.StdinOnce, got.Tty, got.WorkingDir)
	}
	if groups := got.Linux.SecurityContext.SupplementalGroups; !slices.Equal(groups, []int64{3, 4, 5}) {
		t.Errorf("groups %v, want fsGroup, supplementalGroups and the extra ones", groups)
	}
}

func TestImage(t *testing.T) {
	in := of(v1.Container{})
	for ref, want := range map[string]string{"": "repo/img:v1", "sha256:abc": "sha256:abc"} {
		in.Image.Ref = ref
		if got := mustConfig(t, in).Image; got.Image != want || got.UserSpecifiedImage != "repo/img:v1" {
			t.Errorf("image %v, want %s and what the spec says", got, want)
		}
	}
}

// Every signal of the API has a counterpart in CRI.
func TestStopSignals(t *testing.T) {
	for signal, want := range map[v1.Signal]runtimeapi.Signal{
		v1.SIGTERM: runtimeapi.Signal_SIGNAL_SIGTERM, v1.SIGUSR1: runtimeapi.Signal_SIGNAL_SIGUSR1, v1.SIGRTMIN: runtimeapi.Signal_SIGNAL_SIGRTMIN,
		v1.SIGRTMINPLUS15: runtimeapi.Signal_SIGNAL_SIGRTMINPLUS15, v1.SIGRTMAXMINUS14: runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14, v1.SIGRTMAX: runtimeapi.Signal_SIGNAL_SIGRTMAX,
	} {
		if got := mustConfig(t, of(v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: &signal}})).StopSignal; got != want {
			t.Errorf("%s: %v, want %v", signal, got, want)
		}
	}
	if got := mustConfig(t, of(v1.Container{Lifecycle: &v1.Lifecycle{}})).StopSignal; got != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		t.Errorf("no signal: %v, want the runtime's default", got)
	}
}

// No two containers of a pod have the same log, whatever their names are and however often they were started.
func TestC3_LogPathIsUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"a", "b", "a-1", "1"} {
		for attempt := range uint32(12) {
			got, err := container.LogPath(name, attempt)
			if err != nil || seen[got] {
				t.Errorf("%s %d: %q, error %v, there before: %v", name, attempt, got, err, seen[got])
			}
			seen[got] = true
		}
	}
	in := of(v1.Container{})
	in.Attempt = 7
	if got := mustConfig(t, in); got.LogPath != "c/7.log" || got.Metadata.Attempt != 7 || got.Annotations[runtime.AnnotationRestartCount] != "7" {
		t.Errorf("log %q, attempt %d, annotation %q; want the same attempt in all", got.LogPath, got.Metadata.Attempt, got.Annotations[runtime.AnnotationRestartCount])
	}
}

// The hash is the one that a kubelet wrote for the same container. No other field of the spec and no version of
// podsync may change it.
func TestC4_HashAnnotationIsStable(t *testing.T) {
	in := of(v1.Container{})
	in.Pod.Spec.Containers[0].Name, in.Name = "c0", "c0"
	for _, c := range []func(*v1.Container){
		func(*v1.Container) {},
		func(c *v1.Container) { c.Env, c.TTY, c.Lifecycle = []v1.EnvVar{{Name: "A"}}, true, &v1.Lifecycle{} },
	} {
		c(&in.Pod.Spec.Containers[0])
		if got := mustConfig(t, in).Annotations[runtime.AnnotationHash]; got != "d5fc8db0" {
			t.Errorf("hash %s, a kubelet recorded d5fc8db0", got)
		}
	}
}

func TestAnnotationsAndLabelsOfPodsyncCannotBeReplaced(t *testing.T) {
	in := of(v1.Container{Ports: []v1.ContainerPort{{ContainerPort: 80}}, Lifecycle: &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}})
	in.Pod.DeletionGracePeriodSeconds, in.Pod.Spec.TerminationGracePeriodSeconds = ptr[int64](0), ptr[int64](30)
	in.Labels = map[string]string{"owner": "me", runtime.LabelPodUID: "other"}
	in.Annotations = map[string]string{"device": "d", runtime.AnnotationHash: "0"}
	got := mustConfig(t, in)
	wantLabels := map[string]string{"owner": "me", runtime.LabelPodName: "p", runtime.LabelPodNamespace: "ns", runtime.LabelPodUID: "u-1", runtime.LabelContainerName: "c"}
	if !reflect.DeepEqual(got.Labels, wantLabels) {
		t.Errorf("labels %v, want %v", got.Labels, wantLabels)
	}
	want := map[string]string{
		"device": "d", runtime.AnnotationHash: got.Annotations[runtime.AnnotationHash], runtime.AnnotationRestartCount: "0",
		runtime.AnnotationTerminationMessagePath: "", runtime.AnnotationTerminationMessagePolicy: "",
		runtime.AnnotationDeletionGracePeriod: "0", runtime.AnnotationTerminationGracePeriod: "30",
		runtime.AnnotationPorts: `[{"containerPort":80}]`,
	}
	if !reflect.DeepEqual(got.Annotations, want) || got.Annotations[runtime.AnnotationHash] == "0" {
		t.Errorf("annotations %v, want %v", got.Annotations, want)
	}
}

func TestCheckNonRoot(t *testing.T) {
	yes := ptr(true)
	for name, tc := range map[string]struct {
		pod   *v1.PodSecurityContext
		own   *v1.SecurityContext
		image container.Image
		fails bool
	}{
		"not asked for":               {nil, nil, container.Image{}, false},
		"user of the spec":            {nil, &v1.SecurityContext{RunAsNonRoot: yes, RunAsUser: ptr[int64](1)}, container.Image{}, false},
		"root of the spec":            {nil, &v1.SecurityContext{RunAsNonRoot: yes, RunAsUser: ptr[int64](0)}, container.Image{UID: ptr[int64](1)}, true},
		"user of the pod":             {&v1.PodSecurityContext{RunAsUser: ptr[int64](1)}, &v1.SecurityContext{RunAsNonRoot: yes}, container.Image{}, false},
		"own root before pod's user":  {&v1.PodSecurityContext{RunAsNonRoot: yes, RunAsUser: ptr[int64](1)}, &v1.SecurityContext{RunAsUser: ptr[int64](0)}, container.Image{}, true},
		"own false before pod's true": {&v1.PodSecurityContext{RunAsNonRoot: yes}, &v1.SecurityContext{RunAsNonRoot: ptr(false)}, container.Image{}, false},
		"user of the image":           {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{UID: ptr[int64](1)}, false},
		"root of the image":           {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{UID: ptr[int64](0)}, true},
		"image beyond 32 bits":        {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{UID: ptr[int64](1 << 32)}, true},
		"image above the API's range": {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{UID: ptr[int64](1 << 31)}, true},
		"image below 0":               {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{UID: ptr[int64](-1)}, true},
		"image with the last UID":     {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{UID: ptr[int64](1<<31 - 1)}, false},
		"image without user":          {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{}, true},
		"image with a name":           {&v1.PodSecurityContext{RunAsNonRoot: yes}, nil, container.Image{Username: "app"}, true},
	} {
		in := of(v1.Container{SecurityContext: tc.own})
		in.Pod.Spec.SecurityContext, in.Image = tc.pod, tc.image
		err := container.VerifyRunAsNonRoot(in.Pod, &in.Pod.Spec.Containers[0], tc.image)
		if errors.Is(err, container.ErrRunAsNonRoot) != tc.fails || (err != nil) != tc.fails {
			t.Errorf("%s: error %v, want one: %v", name, err, tc.fails)
		}
		if _, err = container.GenerateContainerConfig(in); errors.Is(err, container.ErrRunAsNonRoot) != tc.fails {
			t.Errorf("%s: Config gave error %v, want one: %v", name, err, tc.fails)
		}
	}
	if container.VerifyRunAsNonRoot(nil, nil, container.Image{}) == nil {
		t.Error("no error for a nil pod")
	}
}

func TestCheckNonRootNamesTheUser(t *testing.T) {
	for want, tc := range map[string]struct {
		user  *int64
		image container.Image
	}{
		`user "app" of image "r.io/app:v1" is a name`:                                            {nil, container.Image{Username: "app"}},
		`user 0 of image "r.io/app:v1" is root`:                                                  {nil, container.Image{}},
		`user 4294967296 of image "r.io/app:v1" is no user ID: must be between 0 and 2147483647`: {nil, container.Image{UID: ptr[int64](1 << 32)}},
		`securityContext.runAsUser 0 is root`:                                                    {ptr[int64](0), container.Image{UID: ptr[int64](1)}},
		`securityContext.runAsUser -1 is no user ID`:                                             {ptr[int64](-1), container.Image{UID: ptr[int64](1)}},
	} {
		c := &v1.Container{Image: "r.io/app:v1", SecurityContext: &v1.SecurityContext{RunAsNonRoot: ptr(true), RunAsUser: tc.user}}
		if err := container.VerifyRunAsNonRoot(&v1.Pod{}, c, tc.image); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func fullInput() container.Input {
	in := of(v1.Container{
		Command: []string{"$(A)"}, Args: []string{"$(B)"}, WorkingDir: "/",
		Ports:     []v1.ContainerPort{{ContainerPort: 80}},
		Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1}}},
		Resources: v1.ResourceRequirements{Limits: list("cpu", "1", "memory", "1Gi", "hugepages-2Mi", "4Mi"), Requests: list("cpu", "500m")},
		SecurityContext: &v1.SecurityContext{
			RunAsUser: ptr[int64](1), RunAsGroup: ptr[int64](2), SELinuxOptions: &v1.SELinuxOptions{Level: "s0"},
			Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		},
	})
	in.Pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr[int64](3), SupplementalGroups: []int64{4}}
	in.Pod.Spec.HostUsers = ptr(false)
	in.UserNamespace = &runtimeapi.UserNamespace{Uids: []*runtimeapi.IDMapping{{Length: 1}}}
	in.Env = []environ.Var{{Name: "A", Value: "a"}, {Name: "B", Value: "b"}}
	in.Mounts = []*runtimeapi.Mount{{HostPath: "/h", ContainerPath: "/c"}}
	in.Devices = []*runtimeapi.Device{{HostPath: "/h"}}
	in.CDIDevices = []*runtimeapi.CDIDevice{{Name: "vendor.com/x=y"}}
	in.ExtraGroups = []int64{5}
	in.Labels, in.Annotations = map[string]string{"a": "1", "b": "2"}, map[string]string{"c": "3", "d": "4"}
	in.Node.HugePageSizes, in.Node.MaskedPaths = []string{"2MB", "1GB"}, []string{"/sys/x"}
	return in
}

func TestConfigIsDeterministic(t *testing.T) {
	in := fullInput()
	marshal := proto.MarshalOptions{Deterministic: true}
	first := must.Get(marshal.Marshal(mustConfig(t, in)))(t)
	for range 50 {
		if again, err := marshal.Marshal(mustConfig(t, in)); err != nil || !bytes.Equal(first, again) {
			t.Fatalf("two calls gave two messages, error %v", err)
		}
	}
}

// Neither the creation of the message nor a change of it modifies the input.
func TestConfigSharesNothingWithItsInput(t *testing.T) {
	in, untouched := fullInput(), fullInput()
	c := mustConfig(t, in)
	clear(c.Labels)
	clear(c.Annotations)
	clear(c.Command)
	clear(c.Mounts)
	clear(c.Devices)
	clear(c.CDIDevices)
	c.Envs[0].Value[0] = 'x'
	security := c.Linux.SecurityContext
	security.RunAsUser.Value, security.RunAsGroup.Value, security.SelinuxOptions.Level = -1, -1, ""
	clear(security.SupplementalGroups)
	clear(security.Capabilities.AddCapabilities)
	clear(security.MaskedPaths)
	security.NamespaceOptions.UsernsOptions.Uids[0].Length = 9
	if !proto.Equal(in.UserNamespace, untouched.UserNamespace) || len(in.Mounts) != 1 || !proto.Equal(in.Mounts[0], untouched.Mounts[0]) {
		t.Error("the mapping of IDs, or a mount, changed with the message")
	}
	in.UserNamespace, untouched.UserNamespace, in.Mounts, untouched.Mounts = nil, nil, nil, nil // already compared; messages hold caches
	if !reflect.DeepEqual(in, untouched) {
		t.Error("the input changed with the message")
	}
	in.UserNamespace = fullInput().UserNamespace
	if again := mustConfig(t, in).Linux.SecurityContext; again.MaskedPaths[0] != "/proc/asound" || again.ReadonlyPaths[0] != "/proc/bus" {
		t.Error("the paths of one message are those of the next")
	}
}

func BenchmarkConfig(b *testing.B) {
	in := fullInput()
	b.ReportAllocs()
	for b.Loop() {
		must.Get(container.GenerateContainerConfig(in))(b)
	}
}

// A command that is too long for a process is rejected before it is built, and the error names it.
func TestCommandAndArgsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	vars := []environ.Var{{Name: "A", Value: long}, {Name: "B", Value: long}}
	full := slices.Repeat([]string{"$(A)"}, 17)
	for _, tt := range []struct {
		c    v1.Container
		env  []environ.Var
		want string
	}{
		{v1.Container{Command: []string{"x", "y", "$(A)$(B)"}}, vars, "command[2]: it has more than 131071 bytes"},
		{v1.Container{Args: []string{"x", strings.Repeat("$(A)", 1<<20)}}, vars, "args[1]: it has more than 131071 bytes"},
		{v1.Container{Command: full, Args: []string{"$(B)", "$(B)"}}, vars, "args[1]: environment, command and args have more than 2097152 bytes"},
		{v1.Container{}, []environ.Var{{Name: "A", Value: long + long}}, "variable A: it has more than 131071 bytes"},
		{v1.Container{Command: full, Args: []string{"$(B)"}}, vars, ""},
	} {
		in := of(tt.c)
		in.Env = tt.env
		if config, err := container.GenerateContainerConfig(in); tt.want == "" && err != nil || tt.want != "" && (config != nil || err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%.300v, want %q", err, tt.want)
		}
	}
}

// TestRecordedFactsAreBounded: the runtime's lists contain the annotations of each container of a pod.
func TestRecordedFactsAreBounded(t *testing.T) {
	handler := func(n int) *v1.Lifecycle {
		return &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{strings.Repeat("x", n)}}}}
	}
	for name, tt := range map[string]struct {
		others    []v1.Container
		ephemeral []v1.EphemeralContainer
		refused   bool
	}{
		"a handler of 60 kB":                    {[]v1.Container{{Lifecycle: handler(60_000)}}, nil, false},
		"two of them":                           {[]v1.Container{{Lifecycle: handler(60_000)}, {Lifecycle: handler(60_000)}}, nil, true},
		"escaped":                               {[]v1.Container{{Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{strings.Repeat("<", 12_000)}}}}}}, nil, true},
		"a postStart handler":                   {[]v1.Container{{Lifecycle: &v1.Lifecycle{PostStart: handler(200_000).PreStop}}}, nil, false},
		"1,000 ports":                           {[]v1.Container{{Ports: slices.Repeat([]v1.ContainerPort{{ContainerPort: 1, Protocol: v1.ProtocolTCP}}, 1000)}}, nil, false},
		"4,096 ports":                           {[]v1.Container{{Ports: slices.Repeat([]v1.ContainerPort{{ContainerPort: 1, Protocol: v1.ProtocolTCP}}, 4096)}}, nil, true},
		"a path of a message":                   {[]v1.Container{{TerminationMessagePath: "/" + strings.Repeat("x", 1<<20)}}, nil, true},
		"a path of an ephemeral container":      {nil, []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", TerminationMessagePath: "/" + strings.Repeat("x", 1<<20)}}}, true},
		"a path of another ephemeral container": {nil, []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "other", TerminationMessagePath: "/" + strings.Repeat("x", 1<<20)}}}, false},
	} {
		spec := v1.PodSpec{InitContainers: tt.others, EphemeralContainers: tt.ephemeral}
		err := container.CheckRecorded(&spec, "debug")
		if (err != nil) != tt.refused || tt.refused && (!strings.Contains(err.Error(), "lifecycle.preStop") || len(err.Error()) > 200) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}
