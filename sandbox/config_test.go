package sandbox_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/sandbox"
)

func mustConfig(t *testing.T, in sandbox.Input) *runtimeapi.PodSandboxConfig {
	t.Helper()
	return must.Get(sandbox.GeneratePodSandboxConfig(in))(t)
}

func TestConfigErrorsNameTheField(t *testing.T) {
	userns := named("p", v1.PodSpec{HostUsers: ptr(false), SecurityContext: &v1.PodSecurityContext{}})
	policy := named("p", v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicy("x"))}})
	fqdn := named("p", v1.PodSpec{SetHostnameAsFQDN: ptr(true)})
	for _, tc := range []struct {
		in   sandbox.Input
		want string
	}{
		{sandbox.Input{}, "Input.Pod"},
		{sandbox.Input{Pod: &v1.Pod{}}, "metadata.namespace"},
		{sandbox.Input{Pod: &v1.Pod{}}, "metadata.uid"},
		{sandbox.Input{Pod: named("a/../../b", v1.PodSpec{})}, "metadata.name"},
		{sandbox.Input{Pod: userns}, "spec.hostUsers"},
		{sandbox.Input{Pod: named("p", v1.PodSpec{HostUsers: ptr(false)})}, "spec.hostUsers"},
		{sandbox.Input{Pod: policy}, "supplementalGroupsPolicy"},
		{sandbox.Input{Pod: named("p", v1.PodSpec{Hostname: "A"})}, "spec.hostname"},
		{sandbox.Input{Pod: named("p", v1.PodSpec{}), Hostname: sandbox.Hostname{Domain: "d"}}, "Input.Hostname"},
		{sandbox.Input{Pod: fqdn, Hostname: sandbox.Hostname{Host: "h", Domain: strings.Repeat("d", 64)}}, "pod ns/p: failed to construct FQDN from pod hostname and cluster domain, FQDN h.d"},
	} {
		if got, err := sandbox.GeneratePodSandboxConfig(tc.in); !matches(err, tc.want) || got != nil {
			t.Errorf("%v, error %v; want an error with %q", got, err, tc.want)
		}
	}
}

func TestNoNameLeavesTheLogsRoot(t *testing.T) {
	for _, bad := range []string{"", "..", "a/b", `a\b`, "\x00"} {
		for _, field := range []string{"namespace", "name", "uid"} {
			pod := named("p", v1.PodSpec{})
			switch field {
			case "namespace":
				pod.Namespace = bad
			case "name":
				pod.Name = bad
			case "uid":
				pod.UID = types.UID(bad)
			}
			if dir, err := sandbox.BuildPodLogsDirectory("/logs", pod); !matches(err, "metadata."+field) || dir != "" {
				t.Errorf("%s %q: %q, error %v, want matches(err, \"metadata.\"+field) and %q", field, bad, dir, err, "")
			}
		}
	}
	for root, want := range map[string]string{"": "/var/log/pods/ns_p_u-1", "/l": "/l/ns_p_u-1", "/l/": "/l/ns_p_u-1"} {
		if got, err := sandbox.BuildPodLogsDirectory(root, named("p", v1.PodSpec{})); got != want || err != nil {
			t.Errorf("%q: %q, error %v; want %q", root, got, err, want)
		}
	}
	if _, err := sandbox.BuildPodLogsDirectory("/l", nil); err == nil {
		t.Error("no error for a nil pod")
	}
}

func TestHostNetworkHasNoHostname(t *testing.T) {
	pod := named("p", v1.PodSpec{HostNetwork: true, Hostname: "NOT VALID", SecurityContext: &v1.PodSecurityContext{}})
	config := mustConfig(t, sandbox.Input{Pod: pod, Hostname: sandbox.Hostname{Host: "h"}})
	if config.Hostname != "" || config.Linux.SecurityContext.NamespaceOptions.Network != runtimeapi.NamespaceMode_NODE {
		t.Errorf("hostname %q, namespaces %v; want none, on the node's network", config.Hostname, config.Linux.SecurityContext.NamespaceOptions)
	}
}

func TestHostnameIsComputedUnlessGiven(t *testing.T) {
	in := sandbox.Input{Pod: named("p", v1.PodSpec{Subdomain: "s", SetHostnameAsFQDN: ptr(true)}), ClusterDomain: "c"}
	if got := mustConfig(t, in).Hostname; got != "p.s.ns.svc.c" {
		t.Errorf("hostname %q, want that of the pod", got)
	}
	in.Hostname = sandbox.Hostname{Host: "h"}
	if got := mustConfig(t, in).Hostname; got != "h" {
		t.Errorf("hostname %q, want the one given", got)
	}
}

func TestIdentifyingLabelsCannotBeReplaced(t *testing.T) {
	pod := named("p", v1.PodSpec{})
	pod.Labels = map[string]string{"io.kubernetes.pod.uid": "other", "app": "a", "owner": "pod"}
	got := mustConfig(t, sandbox.Input{Pod: pod, Labels: map[string]string{"owner": "agent", "io.kubernetes.pod.name": "other"}}).Labels
	want := map[string]string{"app": "a", "owner": "agent",
		"io.kubernetes.pod.uid": "u-1", "io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "ns"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}
}

func TestSysctlNames(t *testing.T) {
	pod := named("p", v1.PodSpec{SecurityContext: &v1.PodSecurityContext{Sysctls: []v1.Sysctl{
		{Name: "kernel.shm_rmid_forced", Value: "1"},
		{Name: "net/ipv4/conf/eth0.1/forwarding", Value: "2"},
		{Name: "net.ipv4.conf.eth0/2.forwarding", Value: "3"},
		{Name: "plain", Value: "4"},
	}}})
	want := map[string]string{"kernel.shm_rmid_forced": "1", "net.ipv4.conf.eth0/1.forwarding": "2",
		"net.ipv4.conf.eth0/2.forwarding": "3", "plain": "4"}
	if got := mustConfig(t, sandbox.Input{Pod: pod}).Linux.Sysctls; !reflect.DeepEqual(got, want) {
		t.Errorf("sysctls %v, want %v", got, want)
	}
}

// A pod needs its own user namespace even without a security context; otherwise root in it would be root of the node.
func TestUserNamespace(t *testing.T) {
	mapping := &runtimeapi.UserNamespace{Uids: []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}}
	for hostUsers, want := range map[*bool]bool{nil: false, ptr(true): false, ptr(false): true} {
		for _, context := range []*v1.PodSecurityContext{nil, {}} {
			in := sandbox.Input{Pod: named("p", v1.PodSpec{HostUsers: hostUsers, SecurityContext: context}), UserNamespace: mapping}
			got := mustConfig(t, in).Linux.SecurityContext.GetNamespaceOptions().GetUsernsOptions()
			if (got != nil) != want || got != nil && (!proto.Equal(got, mapping) || got == mapping) {
				t.Errorf("user namespace %v, want a copy of the mapping: %v", got, want)
			}
		}
	}
}

func TestGroups(t *testing.T) {
	in := fullInput()
	if got, want := mustConfig(t, in).Linux.SecurityContext.SupplementalGroups, []int64{3, 4, 5, 6}; !reflect.DeepEqual(got, want) {
		t.Errorf("groups %v, want fsGroup, supplementalGroups and the extra ones: %v", got, want)
	}
}

// S9: a pod that no API server has defaulted may have no security context. That is the same as an empty one.
func TestS9_NoSecurityContextIsAnEmptyOne(t *testing.T) {
	for _, spec := range []v1.PodSpec{{}, {HostNetwork: true}, {HostPID: true}, {HostIPC: true}, {ShareProcessNamespace: new(true)}} {
		without := mustConfig(t, sandbox.Input{Pod: named("p", spec), ExtraGroups: []int64{1}})
		spec.SecurityContext = &v1.PodSecurityContext{}
		if with := mustConfig(t, sandbox.Input{Pod: named("p", spec), ExtraGroups: []int64{1}}); !proto.Equal(without, with) {
			t.Errorf("sandbox %v, want %v", without, with)
		}
	}
}

func TestPorts(t *testing.T) {
	tcp := v1.ContainerPort{ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP}
	web, again, udp := tcp, tcp, tcp
	web.Name, again.Name, again.HostPort, udp.Protocol = "web", "web", 8081, v1.ProtocolUDP
	pod := named("p", v1.PodSpec{
		InitContainers: []v1.Container{{Name: "i", Ports: []v1.ContainerPort{tcp}}},
		Containers: []v1.Container{
			{Name: "a", Ports: []v1.ContainerPort{tcp, tcp, udp, web, again, {ContainerPort: 1}, {ContainerPort: 2, Protocol: v1.ProtocolSCTP}}},
			{Name: "b", Ports: []v1.ContainerPort{web}},
		},
	})
	var got []string
	for _, p := range mustConfig(t, sandbox.Input{Pod: pod}).PortMappings {
		got = append(got, p.Protocol.String()+" "+strings.Repeat("h", int(p.HostPort/8080)))
	}
	// Repetitions in one container are left out; other containers are on their own.
	if want := []string{"TCP h", "UDP h", "TCP h", "TCP ", "SCTP ", "TCP h"}; !reflect.DeepEqual(got, want) {
		t.Errorf("ports %q, want %q", got, want)
	}
}

// S10: a sidecar's host ports are mapped like those of a regular container.
func TestS10_HostPortsOfSidecarsAreMapped(t *testing.T) {
	port := func(n int32) []v1.ContainerPort {
		return []v1.ContainerPort{{ContainerPort: n, HostPort: n, Protocol: v1.ProtocolTCP}}
	}
	pod := named("p", v1.PodSpec{
		InitContainers: []v1.Container{{Name: "i", Ports: port(1)}, {Name: "s", Ports: port(2), RestartPolicy: ptr(v1.ContainerRestartPolicyAlways)}},
		Containers:     []v1.Container{{Name: "a", Ports: port(3)}},
	})
	var got []int32
	for _, p := range mustConfig(t, sandbox.Input{Pod: pod}).PortMappings {
		got = append(got, p.HostPort)
	}
	if want := []int32{3, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("host ports %v, want %v", got, want)
	}
}

func TestOverheadIsRequestAndLimit(t *testing.T) {
	pod := named("p", v1.PodSpec{Overhead: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("64Mi")}})
	got := mustConfig(t, sandbox.Input{Pod: pod}).Linux.Overhead
	want := &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuQuota: 25000, CpuPeriod: 100000, MemoryLimitInBytes: 64 << 20}
	if !proto.Equal(got, want) {
		t.Errorf("overhead %v, want %v", got, want)
	}
}

func TestPrivilegedIfAnyContainerIs(t *testing.T) {
	sc := &v1.SecurityContext{Privileged: ptr(true)}
	for name, spec := range map[string]v1.PodSpec{
		"init":      {InitContainers: []v1.Container{{}, {SecurityContext: sc}}},
		"regular":   {Containers: []v1.Container{{}, {SecurityContext: sc}}},
		"ephemeral": {EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: sc}}}},
	} {
		if !mustConfig(t, sandbox.Input{Pod: named("p", spec)}).Linux.SecurityContext.Privileged {
			t.Errorf("%s: not privileged", name)
		}
	}
	for _, no := range []*v1.SecurityContext{nil, {}, {Privileged: ptr(false)}} {
		c := v1.Container{SecurityContext: no}
		spec := v1.PodSpec{
			InitContainers: []v1.Container{c}, Containers: []v1.Container{c},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)}},
		}
		if mustConfig(t, sandbox.Input{Pod: named("p", spec)}).Linux.SecurityContext.Privileged {
			t.Errorf("privileged by %+v", no)
		}
	}
}

// The pod's need is the maximum over time. The model computes all times one by one: each init container next to the
// sidecars before it, then all regular containers and sidecars.
func TestResourcesAreThoseOfThePeak(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var spec v1.PodSpec
		var sidecars, peak int64
		for range random.IntN(4) {
			mem, sidecar := random.Int64N(100)<<20, random.IntN(2) == 0
			c := limited(mem)
			peak = max(peak, sidecars+mem)
			if sidecar {
				c.RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
				sidecars += mem
			}
			spec.InitContainers = append(spec.InitContainers, c)
		}
		end := sidecars
		for range random.IntN(3) {
			mem := random.Int64N(100) << 20
			spec.Containers = append(spec.Containers, limited(mem))
			end += mem
		}
		got := mustConfig(t, sandbox.Input{Pod: named("p", spec)}).Linux.Resources.MemoryLimitInBytes
		if want := max(peak, end); got != want {
			t.Fatalf("memory limit %d, want %d for %+v", got, want, spec)
		}
	}
}

func limited(memory int64) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
		v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI)}}}
}

func TestPodLevelResourcesReplaceTheSum(t *testing.T) {
	spec := v1.PodSpec{Containers: []v1.Container{limited(1 << 20)}, Resources: &v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
		Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}}
	got := mustConfig(t, sandbox.Input{Pod: named("p", spec)}).Linux.Resources
	if got.MemoryLimitInBytes != 1<<30 || got.CpuShares != 2048 {
		t.Errorf("%v, want the pod's own memory and CPU", got)
	}
}

func fullInput() sandbox.Input {
	pod := named("web-0", v1.PodSpec{
		InitContainers: []v1.Container{limited(5 << 20)},
		Containers: []v1.Container{limited(1 << 20), {Ports: []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}, Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}}}},
		Overhead:  v1.ResourceList{v1.ResourceCPU: resource.MustParse("10m")},
		HostUsers: ptr(false),
		SecurityContext: &v1.PodSecurityContext{
			RunAsUser: ptr[int64](1), RunAsGroup: ptr[int64](2), FSGroup: ptr[int64](3), SupplementalGroups: []int64{4, 5},
			SELinuxOptions: &v1.SELinuxOptions{Level: "s0"}, Sysctls: []v1.Sysctl{{Name: "net/core/somaxconn", Value: "1"}},
		},
	})
	pod.Labels, pod.Annotations = map[string]string{"a": "1", "b": "2", "c": "3"}, map[string]string{"x": "1", "y": "2"}
	return sandbox.Input{
		Pod: pod, Attempt: 3, ClusterDomain: "cluster.local", CgroupParent: "/kubepods",
		DNS:           &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"a", "b"}, Options: []string{"ndots:5"}},
		UserNamespace: &runtimeapi.UserNamespace{Uids: []*runtimeapi.IDMapping{{Length: 65536}}, Gids: []*runtimeapi.IDMapping{{Length: 65536}}},
		ExtraGroups:   []int64{6}, Labels: map[string]string{"owner": "me"},
	}
}

func TestConfigIsDeterministic(t *testing.T) {
	in := fullInput()
	first := encoded(t, mustConfig(t, in))
	for range 50 {
		if !bytes.Equal(encoded(t, mustConfig(t, in)), first) {
			t.Fatal("two calls gave two messages")
		}
	}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	return must.Get(proto.MarshalOptions{Deterministic: true}.Marshal(m))(t)
}

// Neither the creation of the message nor a change of it modifies the input.
func TestConfigSharesNothingWithItsInput(t *testing.T) {
	in, untouched := fullInput(), fullInput()
	config := mustConfig(t, in)
	overwrite(config)
	if !reflect.DeepEqual(in.Pod, untouched.Pod) || !reflect.DeepEqual(in.Labels, untouched.Labels) ||
		!reflect.DeepEqual(in.ExtraGroups, untouched.ExtraGroups) ||
		!proto.Equal(in.DNS, untouched.DNS) || !proto.Equal(in.UserNamespace, untouched.UserNamespace) {
		t.Error("the input changed with the message")
	}
}

func overwrite(c *runtimeapi.PodSandboxConfig) {
	clear(c.Labels)
	clear(c.Annotations)
	c.DnsConfig.Servers[0], c.DnsConfig.Searches[0], c.DnsConfig.Options[0] = "", "", ""
	security := c.Linux.SecurityContext
	security.RunAsUser.Value, security.RunAsGroup.Value, security.SelinuxOptions.Level = -1, -1, ""
	clear(security.SupplementalGroups)
	security.NamespaceOptions.UsernsOptions.Uids[0].Length = 0
	clear(c.Linux.Sysctls)
}

func BenchmarkConfig(b *testing.B) {
	in := fullInput()
	b.ReportAllocs()
	for b.Loop() {
		must.Get(sandbox.GeneratePodSandboxConfig(in))(b)
	}
}

// TestMetadataIsBounded: the lists of the runtime hold the labels and annotations of each sandbox.
func TestMetadataIsBounded(t *testing.T) {
	for n, refused := range map[int]bool{10 << 10: false, 63 << 10: false, 64 << 10: true, 1 << 20: true} {
		for _, of := range []string{"labels", "annotations"} {
			pod := named("p", v1.PodSpec{})
			if values := map[string]string{"key": strings.Repeat("x", n)}; of == "labels" {
				pod.Labels = values
			} else {
				pod.Annotations = values
			}
			config, err := sandbox.GeneratePodSandboxConfig(sandbox.Input{Pod: pod})
			if (err != nil) != refused || refused && (config != nil || !matches(err, "metadata.annotations") || len(err.Error()) > 200) {
				t.Errorf("%d bytes of %s: %.300v", n, of, err)
			}
		}
	}
}
