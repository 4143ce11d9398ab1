package container

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/linux"
)

func (in *Input) linux(c *v1.Container) (*runtimeapi.LinuxContainerConfig, error) {
	security, err := in.security(c)
	if err != nil {
		return nil, err
	}
	resources, err := in.resources(c)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.LinuxContainerConfig{Resources: resources, SecurityContext: security}, nil
}

func (in *Input) security(c *v1.Container) (*runtimeapi.LinuxContainerSecurityContext, error) {
	pod := in.Pod.Spec.SecurityContext
	sc := effective(pod, c.SecurityContext)
	if err := VerifyRunAsNonRoot(in.Pod, c, in.Image); err != nil {
		return nil, err
	}
	namespaces, err := in.namespaces()
	if err != nil {
		return nil, err
	}
	policy, err := linux.GroupsPolicy(pod)
	if err != nil {
		return nil, err
	}
	seccomp, err := seccompProfile(&in.Node, sc.SeccompProfile)
	if err != nil {
		return nil, err
	}
	appArmor, err := appArmorOf(in.Pod, c)
	if err != nil {
		return nil, err
	}
	masked, readonly, err := procPaths(&in.Node, sc.ProcMount)
	if err != nil {
		return nil, err
	}
	user, username := in.Image.user(sc)
	return &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:             capabilities(sc.Capabilities),
		Privileged:               isTrue(sc.Privileged),
		NamespaceOptions:         namespaces,
		SelinuxOptions:           linux.SELinux(sc.SELinuxOptions),
		RunAsUser:                linux.ID(user),
		RunAsUsername:            username,
		RunAsGroup:               linux.ID(sc.RunAsGroup),
		ReadonlyRootfs:           isTrue(sc.ReadOnlyRootFilesystem),
		SupplementalGroups:       linux.Groups(pod, in.ExtraGroups),
		SupplementalGroupsPolicy: policy,
		NoNewPrivs:               sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		MaskedPaths:              masked,
		ReadonlyPaths:            readonly,
		Seccomp:                  seccomp,
		Apparmor:                 appArmor.profile,
		//lint:ignore SA1019 a kubelet still sets it, for runtimes that know no other
		ApparmorProfile: appArmor.name,
	}, nil
}

// namespaces returns the pod's namespaces. An ephemeral container sees its target's processes, if every
// container has its own PID namespace.
func (in *Input) namespaces() (*runtimeapi.NamespaceOption, error) {
	ns, err := linux.Namespaces(&in.Pod.Spec, in.UserNamespace)
	if err != nil {
		return nil, err
	}
	if in.TargetID != "" && ns.Pid == runtimeapi.NamespaceMode_CONTAINER {
		ns.Pid = runtimeapi.NamespaceMode_TARGET
		ns.TargetId = in.TargetID
	}
	return ns, nil
}

// effective returns the effective security context: each field from the container's if it is set there, and otherwise
// from the pod's. Fields are not merged. Either argument may be nil.
func effective(pod *v1.PodSecurityContext, container *v1.SecurityContext) v1.SecurityContext {
	var sc v1.SecurityContext
	if container != nil {
		sc = *container
	}
	if pod != nil {
		sc.SELinuxOptions = either(sc.SELinuxOptions, pod.SELinuxOptions)
		sc.RunAsUser = either(sc.RunAsUser, pod.RunAsUser)
		sc.RunAsGroup = either(sc.RunAsGroup, pod.RunAsGroup)
		sc.RunAsNonRoot = either(sc.RunAsNonRoot, pod.RunAsNonRoot)
		sc.SeccompProfile = either(sc.SeccompProfile, pod.SeccompProfile)
	}
	return sc
}

func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

func isTrue(b *bool) bool { return b != nil && *b }

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	return &runtimeapi.Capability{AddCapabilities: names(c.Add), DropCapabilities: names(c.Drop)}
}

func names(capabilities []v1.Capability) []string {
	var list []string
	for _, c := range capabilities {
		list = append(list, string(c))
	}
	return list
}

// procPaths returns the paths in /proc and /sys that are hidden from a container, and those that it may not write.
func procPaths(n *Node, procMount *v1.ProcMountType) (masked, readonly []string, err error) {
	if procMount == nil {
		return append(maskedPaths(), n.MaskedPaths...), readonlyPaths(), nil
	}
	switch *procMount {
	case v1.DefaultProcMount, "":
		return append(maskedPaths(), n.MaskedPaths...), readonlyPaths(), nil
	case v1.UnmaskedProcMount:
		return nil, nil, nil
	}
	return nil, nil, fmt.Errorf("securityContext.procMount %q is not known, want Default or Unmasked", *procMount)
}

// maskedPaths returns files that reveal the node's properties or secrets of its kernel.
func maskedPaths() []string {
	return []string{
		"/proc/asound",
		"/proc/acpi",
		"/proc/interrupts",
		"/proc/kcore",
		"/proc/keys",
		"/proc/latency_stats",
		"/proc/timer_list",
		"/proc/timer_stats",
		"/proc/sched_debug",
		"/proc/scsi",
		"/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
}

// readonlyPaths returns files that change the node when they are written.
func readonlyPaths() []string {
	return []string{
		"/proc/bus",
		"/proc/fs",
		"/proc/irq",
		"/proc/sys",
		"/proc/sysrq-trigger",
	}
}
