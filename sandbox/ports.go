package sandbox

import (
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
)

// portMappings returns the ports of the pod's regular containers and then of its sidecars, for which the scheduler keeps host
// ports free, too (kubernetes #132037), each in the spec's order. Ports of other init containers are not mapped.
func portMappings(spec *v1.PodSpec) []*runtimeapi.PortMapping {
	var mappings []*runtimeapi.PortMapping
	for i := range spec.Containers {
		mappings = appendPorts(mappings, spec.Containers[i].Ports)
	}
	for i := range spec.InitContainers {
		if c := &spec.InitContainers[i]; runtime.IsSidecar(c) {
			mappings = appendPorts(mappings, c.Ports)
		}
	}
	return mappings
}

// appendPorts adds one container's ports. It omits a port that repeats an earlier port in the same container, by its name
// or, without a name, in all fields, because the runtime would bind a host port twice.
func appendPorts(mappings []*runtimeapi.PortMapping, ports []v1.ContainerPort) []*runtimeapi.PortMapping {
	for i := range ports {
		if repeats(ports[:i], &ports[i]) {
			continue
		}
		mappings = append(mappings, &runtimeapi.PortMapping{
			Protocol:      protocol(ports[i].Protocol),
			ContainerPort: ports[i].ContainerPort,
			HostPort:      ports[i].HostPort,
			HostIp:        ports[i].HostIP,
		})
	}
	return mappings
}

func repeats(earlier []v1.ContainerPort, p *v1.ContainerPort) bool {
	for i := range earlier {
		if p.Name != "" && earlier[i].Name == p.Name || earlier[i] == *p {
			return true
		}
	}
	return false
}

// protocol returns the protocol, by default TCP, as in the API.
func protocol(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	}
	return runtimeapi.Protocol_TCP
}
