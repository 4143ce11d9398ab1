package sandbox

import (
	"cmp"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/linux"
	"github.com/podsync/podsync/internal/podresources"
)

func (in *Input) linux() (*runtimeapi.LinuxPodSandboxConfig, error) {
	security, err := in.security()
	if err != nil {
		return nil, err
	}
	cpu := podresources.CPUBandwidth{Off: in.NoCPUQuota, Period: in.CPUPeriod}
	return &runtimeapi.LinuxPodSandboxConfig{
		CgroupParent:    in.CgroupParent,
		SecurityContext: security,
		Sysctls:         sysctls(in.Pod.Spec.SecurityContext),
		Overhead:        overhead(in.Pod.Spec.Overhead, cpu),
		Resources:       linux.Resources(podAmounts(&in.Pod.Spec), cpu),
	}, nil
}

// security returns the security context for the sandbox's own process. It always has the runtime's default
// seccomp profile, whatever the containers request.
func (in *Input) security() (*runtimeapi.LinuxSandboxSecurityContext, error) {
	spec := &in.Pod.Spec
	security := &runtimeapi.LinuxSandboxSecurityContext{
		Privileged: privileged(spec),
		Seccomp:    &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	// The API server never stores nil. Without namespace options a pod on the node's network would get its own network.
	sc := cmp.Or(spec.SecurityContext, &v1.PodSecurityContext{})
	namespaces, err := linux.Namespaces(spec, in.UserNamespace)
	if err != nil {
		return nil, err
	}
	policy, err := linux.GroupsPolicy(sc)
	if err != nil {
		return nil, err
	}
	security.NamespaceOptions = namespaces
	security.SelinuxOptions = linux.SELinux(sc.SELinuxOptions)
	security.RunAsUser = linux.ID(sc.RunAsUser)
	security.RunAsGroup = linux.ID(sc.RunAsGroup)
	security.SupplementalGroups = linux.Groups(sc, in.ExtraGroups)
	security.SupplementalGroupsPolicy = policy
	return security, nil
}

// privileged reports whether any container in the pod is privileged: a runtime runs such a container only in a privileged
// sandbox.
func privileged(spec *v1.PodSpec) bool {
	for i := range spec.InitContainers {
		if isPrivileged(spec.InitContainers[i].SecurityContext) {
			return true
		}
	}
	for i := range spec.Containers {
		if isPrivileged(spec.Containers[i].SecurityContext) {
			return true
		}
	}
	for i := range spec.EphemeralContainers {
		if isPrivileged(spec.EphemeralContainers[i].SecurityContext) {
			return true
		}
	}
	return false
}

func isPrivileged(sc *v1.SecurityContext) bool {
	return sc != nil && sc.Privileged != nil && *sc.Privileged
}

func sysctls(sc *v1.PodSecurityContext) map[string]string {
	if sc == nil || len(sc.Sysctls) == 0 {
		return nil
	}
	settings := make(map[string]string, len(sc.Sysctls))
	for _, s := range sc.Sysctls {
		settings[dotted(s.Name)] = s.Value
	}
	return settings
}

// dotted returns a sysctl's name with dots between its parts, as runtimes require. The first separator in a name
// separates its parts; the other character then belongs to a name (sysctl.d(5)).
func dotted(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

// overhead returns the cgroup settings for the pod's overhead, which is both request and
// limit.
func overhead(o v1.ResourceList, cpu podresources.CPUBandwidth) *runtimeapi.LinuxContainerResources {
	if o == nil {
		return &runtimeapi.LinuxContainerResources{}
	}
	return linux.Resources(linux.Amounts{CPURequest: o.Cpu(), CPULimit: o.Cpu(), MemoryLimit: o.Memory()}, cpu)
}

// podAmounts adds up a pod's container resources, without its overhead.
func podAmounts(spec *v1.PodSpec) linux.Amounts {
	return linux.Amounts{
		CPURequest:  podresources.Total(spec, podresources.Requests, v1.ResourceCPU),
		CPULimit:    podresources.Total(spec, podresources.Limits, v1.ResourceCPU),
		MemoryLimit: podresources.Total(spec, podresources.Limits, v1.ResourceMemory),
	}
}
