package status

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// addAddresses adds the node's and the pod's addresses. Unknown addresses stay as they were last reported.
func (v *view) addAddresses(s *v1.PodStatus) {
	s.HostIP, s.HostIPs = v.before.HostIP, slices.Clone(v.before.HostIPs)
	if len(v.HostIPs) > 0 {
		s.HostIP, s.HostIPs = v.HostIPs[0], nil
		for _, ip := range v.HostIPs {
			s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
		}
	}
	s.PodIPs = v.podIPs()
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
}

// podIPs returns the active sandbox's addresses. Without an active sandbox, the reported addresses stay: they do not
// disappear with their sandbox, and the next one's addresses replace them (kubernetes #82268, #125370). The address
// family in the node's first address comes first.
//
// A pod on the node's network has the node's addresses. It keeps the reported addresses, and gains an address in a
// family that it lacks.
func (v *view) podIPs() []v1.PodIP {
	if v.Pod.Spec.HostNetwork {
		ips := slices.Concat(v.reportedIPs(), v.HostIPs)
		return onePerFamily(ips, ips)
	}
	if ips := onePerFamily(v.Status.IPs(), v.HostIPs); len(ips) > 0 {
		return ips
	}
	ips := v.reportedIPs()
	return onePerFamily(ips, ips)
}

func (v *view) reportedIPs() (ips []string) {
	for _, ip := range v.before.PodIPs {
		ips = append(ips, ip.IP)
	}
	if len(ips) == 0 && v.before.PodIP != "" {
		ips = append(ips, v.before.PodIP)
	}
	return ips
}

// onePerFamily returns the first IPv4 and the first IPv6 address: the API allows one each. The
// first address's family in like comes first, by default IPv4. Invalid addresses are dropped.
func onePerFamily(ips, like []string) []v1.PodIP {
	first := ipv4
	if len(like) > 0 && familyOf(like[0]) == ipv6 {
		first = ipv6
	}
	var found []v1.PodIP
	for _, want := range [...]family{first, first.other()} {
		if at := slices.IndexFunc(ips, func(ip string) bool { return familyOf(ip) == want }); at >= 0 {
			found = append(found, v1.PodIP{IP: ips[at]})
		}
	}
	return found
}

// family is an IP family; the zero family means that the address is invalid.
type family uint8

const (
	ipv4 family = iota + 1
	ipv6
)

func (f family) other() family { return ipv4 + ipv6 - f }

func familyOf(ip string) family {
	switch addr, err := netip.ParseAddr(ip); {
	case err != nil:
		return 0
	case addr.Is4():
		return ipv4
	}
	return ipv6
}
