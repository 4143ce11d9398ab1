package podspec

import (
	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
)

// Default returns a copy of the pod with the API's defaults in unset fields, as an API server fills
// them in. It returns nil for nil, and a pod that has its defaults unchanged, as well as a pod that
// [ValidateQuantities] rejects, because defaults depend on quantities.
func Default(pod *v1.Pod) *v1.Pod {
	if pod == nil {
		return nil
	}
	pod = pod.DeepCopy()
	if ValidateQuantities(pod) != nil {
		return pod
	}
	defaultSpec(&pod.Spec)
	for m := range members(&pod.Spec) {
		defaultContainer(m)
		if pod.Spec.HostNetwork && m.kind != ephemeral {
			defaultHostPorts(m.Ports)
		}
	}
	defaultPodResources(&pod.Spec)
	for i := range pod.Spec.Volumes {
		defaultVolume(&pod.Spec.Volumes[i].VolumeSource)
	}
	return pod
}

func defaultSpec(spec *v1.PodSpec) {
	set(&spec.RestartPolicy, v1.RestartPolicyAlways)
	set(&spec.DNSPolicy, v1.DNSClusterFirst)
	set(&spec.SchedulerName, v1.DefaultSchedulerName)
	setPointer(&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	setPointer(&spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	setPointer(&spec.SecurityContext, v1.PodSecurityContext{})
	// The API has two names for one field; the first is deprecated.
	set(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	roundUp(spec.Overhead)
}

// set sets a field that has no value.
func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// setPointer sets an optional field that is absent.
func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultContainer(m *member) {
	set(&m.ImagePullPolicy, pullPolicy(m.Image))
	set(&m.TerminationMessagePath, v1.TerminationMessagePathDefault)
	set(&m.TerminationMessagePolicy, v1.TerminationMessageReadFile)
	for i := range m.Ports {
		set(&m.Ports[i].Protocol, v1.ProtocolTCP)
	}
	for i := range m.Env {
		if from := m.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				setPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	for _, p := range []*v1.Probe{m.LivenessProbe, m.ReadinessProbe, m.StartupProbe} {
		defaultProbe(p)
	}
	if l := m.Lifecycle; l != nil {
		defaultHandler(l.PostStart)
		defaultHandler(l.PreStop)
	}
	roundUp(m.Resources.Limits)
	roundUp(m.Resources.Requests)
	if m.kind != ephemeral {
		requestLimits(&m.Resources)
	}
}

// pullPolicy returns Always for an image whose tag is latest, explicitly or by default, because it
// is expected to change. It returns IfNotPresent for a name that does not parse.
func pullPolicy(image string) v1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return v1.PullIfNotPresent
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// defaultHostPorts sets the host ports of a pod in the node's network, where each port of a container is a node port.
func defaultHostPorts(ports []v1.ContainerPort) {
	for i := range ports {
		set(&ports[i].HostPort, ports[i].ContainerPort)
	}
}

func defaultFieldRef(ref *v1.ObjectFieldSelector) {
	if ref != nil {
		set(&ref.APIVersion, "v1")
	}
}

func defaultProbe(p *v1.Probe) {
	if p == nil {
		return
	}
	set(&p.TimeoutSeconds, 1)
	set(&p.PeriodSeconds, 10)
	set(&p.SuccessThreshold, 1)
	set(&p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setPointer(&p.GRPC.Service, "")
	}
}

func defaultHandler(h *v1.LifecycleHandler) {
	if h != nil {
		defaultHTTPGet(h.HTTPGet)
	}
}

func defaultHTTPGet(get *v1.HTTPGetAction) {
	if get != nil {
		set(&get.Path, "/")
		set(&get.Scheme, v1.URISchemeHTTP)
	}
}
