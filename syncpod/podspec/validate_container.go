package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const maxRestartRules = 20

// scope has the parts of a pod that its containers refer to.
type scope struct {
	spec       *v1.PodSpec
	volumes    map[string]*v1.VolumeSource
	containers map[string]bool // by name, without ephemeral ones
}

func (v *validator) containers(spec *v1.PodSpec, volumes map[string]*v1.VolumeSource) {
	if len(spec.Containers) == 0 {
		v.add(field.Required(field.NewPath("spec", "containers"), ""))
	}
	s := scope{spec: spec, volumes: volumes, containers: map[string]bool{}}
	for m := range members(spec) {
		if m.kind != ephemeral {
			s.containers[m.Name] = true
		}
	}
	unique, hostPort := v.unique(), v.unique()
	for m := range members(spec) {
		unique(m.path.Child("name"), m.Name)
		v.container(m, &s)
		if m.kind == regular || m.sidecar() { // other init containers run one at a time
			v.hostPorts(m, hostPort)
		}
	}
}

func (v *validator) container(m *member, s *scope) {
	v.text(m.path.Child("name"), m.Name, validation.IsDNS1123Label)
	v.text(m.path.Child("image"), m.Image, func(image string) []string {
		if strings.TrimSpace(image) != image {
			return []string{"must not have leading or trailing whitespace"}
		}
		return nil
	})
	oneOf(v, m.path.Child("imagePullPolicy"), m.ImagePullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	v.text(m.path.Child("terminationMessagePath"), m.TerminationMessagePath, present)
	oneOf(v, m.path.Child("terminationMessagePolicy"), m.TerminationMessagePolicy, v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)
	v.ports(m.path.Child("ports"), m.Ports, s.spec.HostNetwork)
	v.env(m, s)
	v.mounts(m, s)
	v.devices(m, s)
	v.resources(m.path.Child("resources"), &m.Resources)
	v.containerSecurity(m.path.Child("securityContext"), m.SecurityContext, s.spec)
	v.restart(m)
	v.probes(m)
	v.lifecycle(m, s.spec.TerminationGracePeriodSeconds)
	if m.kind == ephemeral {
		v.ephemeral(m, s)
	}
}

func (v *validator) ports(at *field.Path, ports []v1.ContainerPort, hostNetwork bool) {
	unique := v.unique()
	for i := range ports {
		p, at := &ports[i], at.Index(i)
		v.optional(at.Child("name"), p.Name, validation.IsValidPortName)
		unique(at.Child("name"), p.Name)
		v.invalid(at.Child("containerPort"), p.ContainerPort, validation.IsValidPortNum(int(p.ContainerPort))...)
		if p.HostPort != 0 {
			v.invalid(at.Child("hostPort"), p.HostPort, validation.IsValidPortNum(int(p.HostPort))...)
		}
		if hostNetwork && p.HostPort != p.ContainerPort {
			v.invalid(at.Child("hostPort"), p.HostPort, "must be the containerPort with hostNetwork")
		}
		oneOf(v, at.Child("protocol"), p.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
		if p.HostIP != "" {
			v.add(validation.IsValidIPForLegacyField(at.Child("hostIP"), p.HostIP, true, nil)...)
		}
	}
}

func (v *validator) hostPorts(m *member, unique func(*field.Path, string)) {
	for i, p := range m.Ports {
		if p.HostPort != 0 {
			unique(m.path.Child("ports").Index(i).Child("hostPort"), fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort))
		}
	}
}

// restart checks a container's own restart policy (KEP-753, KEP-5307).
func (v *validator) restart(m *member) {
	rules := m.path.Child("restartPolicyRules")
	if m.RestartPolicy == nil {
		if len(m.RestartPolicyRules) > 0 {
			v.add(field.Required(m.path.Child("restartPolicy"), "must be set with restartPolicyRules"))
		}
	} else {
		oneOf(v, m.path.Child("restartPolicy"), *m.RestartPolicy,
			v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure)
	}
	if n := len(m.RestartPolicyRules); n > maxRestartRules {
		v.add(field.TooMany(rules, n, maxRestartRules))
	}
	for i := range m.RestartPolicyRules {
		v.restartRule(rules.Index(i), &m.RestartPolicyRules[i])
	}
}

func (v *validator) restartRule(at *field.Path, rule *v1.ContainerRestartRule) {
	const maxValues = 255
	oneOf(v, at.Child("action"), rule.Action, v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers)
	at = at.Child("exitCodes")
	if rule.ExitCodes == nil {
		v.add(field.Required(at, ""))
		return
	}
	oneOf(v, at.Child("operator"), rule.ExitCodes.Operator, v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn)
	switch n := len(rule.ExitCodes.Values); {
	case n == 0:
		v.add(field.Required(at.Child("values"), ""))
	case n > maxValues:
		v.add(field.TooMany(at.Child("values"), n, maxValues))
	}
}

// ephemeral checks the fields that an ephemeral container must not have.
func (v *validator) ephemeral(m *member, s *scope) {
	forbidden := func(name string, isSet bool) {
		if isSet {
			v.add(field.Forbidden(m.path.Child(name), "must not be set for an ephemeral container"))
		}
	}
	forbidden("ports", len(m.Ports) > 0)
	forbidden("resources", len(m.Resources.Limits) > 0 || len(m.Resources.Requests) > 0)
	forbidden("livenessProbe", m.LivenessProbe != nil)
	forbidden("readinessProbe", m.ReadinessProbe != nil)
	forbidden("startupProbe", m.StartupProbe != nil)
	forbidden("lifecycle", m.Lifecycle != nil)
	forbidden("restartPolicy", m.RestartPolicy != nil)
	forbidden("restartPolicyRules", len(m.RestartPolicyRules) > 0)
	if m.target != "" && !s.containers[m.target] {
		v.add(field.NotFound(m.path.Child("targetContainerName"), m.target))
	}
}

func (v *validator) mounts(m *member, s *scope) {
	unique := v.unique()
	for i := range m.VolumeMounts {
		mount, at := &m.VolumeMounts[i], m.path.Child("volumeMounts").Index(i)
		v.volumeName(at.Child("name"), mount.Name, s)
		v.text(at.Child("mountPath"), mount.MountPath, func(p string) []string {
			if strings.Contains(p, ":") {
				return []string{"must not contain ':'"}
			}
			return nil
		})
		unique(at.Child("mountPath"), mount.MountPath)
		v.subPath(at, mount)
		v.propagation(at, mount, m.SecurityContext)
		if m.kind == ephemeral && (mount.SubPath != "" || mount.SubPathExpr != "") {
			v.add(field.Forbidden(at.Child("subPath"), "must not be set for an ephemeral container"))
		}
	}
}

func (v *validator) volumeName(at *field.Path, name string, s *scope) {
	switch {
	case name == "":
		v.add(field.Required(at, ""))
	case s.volumes[name] == nil:
		v.add(field.NotFound(at, name))
	}
}

func (v *validator) subPath(at *field.Path, mount *v1.VolumeMount) {
	v.below(at.Child("subPath"), mount.SubPath)
	v.below(at.Child("subPathExpr"), mount.SubPathExpr)
	if mount.SubPath != "" && mount.SubPathExpr != "" {
		v.add(field.Forbidden(at.Child("subPathExpr"), "must not be set with subPath"))
	}
}

func (v *validator) propagation(at *field.Path, mount *v1.VolumeMount, sc *v1.SecurityContext) {
	bidirectional := mount.MountPropagation != nil && *mount.MountPropagation == v1.MountPropagationBidirectional
	privileged := sc != nil && sc.Privileged != nil && *sc.Privileged
	if mount.MountPropagation != nil {
		at := at.Child("mountPropagation")
		oneOf(v, at, *mount.MountPropagation, v1.MountPropagationNone, v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional)
		if bidirectional && !privileged {
			v.add(field.Forbidden(at, "must not be Bidirectional but in a privileged container"))
		}
	}
	if mount.RecursiveReadOnly == nil {
		return
	}
	at = at.Child("recursiveReadOnly")
	oneOf(v, at, *mount.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled)
	if *mount.RecursiveReadOnly != v1.RecursiveReadOnlyDisabled && !mount.ReadOnly {
		v.add(field.Forbidden(at, "must only be set with readOnly"))
	}
}

func (v *validator) devices(m *member, s *scope) {
	unique := v.unique()
	for i, d := range m.VolumeDevices {
		at := m.path.Child("volumeDevices").Index(i)
		v.volumeName(at.Child("name"), d.Name, s)
		v.text(at.Child("devicePath"), d.DevicePath, present)
		v.noBacksteps(at.Child("devicePath"), d.DevicePath)
		unique(at.Child("devicePath"), d.DevicePath)
	}
}
