package apistatus

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// addAddresses adds the addresses of the node and of the pod. Those of which
// nothing is known now are as they were reported last.
func (v *view) addAddresses(s *v1.PodStatus) {
	s.HostIP, s.HostIPs = v.before.HostIP, slices.Clone(v.before.HostIPs)
	if len(v.HostIPs) > 0 {
		s.HostIP, s.HostIPs = v.HostIPs[0], nil
		for _, ip := range v.HostIPs {
			s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
		}
	}
	for _, ip := range v.podIPs() {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
}

// podIPs are the addresses of the active sandbox. While it has none, those
// reported last hold: they do not vanish with the sandbox, they only give way to
// those of another one (kubernetes #82268, #125370). The family of the node's
// first address comes first.
//
// A pod on the node's network has the node's addresses. It keeps those it has,
// and gets one of a family that it had none of.
func (v *view) podIPs() []string {
	if v.Pod.Spec.HostNetwork {
		ips := slices.Concat(v.reportedIPs(), v.HostIPs)
		return onePerFamily(ips, ips)
	}
	if ips := onePerFamily(v.Status.IPs(), v.HostIPs); len(ips) > 0 {
		return ips
	}
	return v.reportedIPs()
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

// onePerFamily returns the first IPv4 and the first IPv6 address: the API allows
// a pod one of each. First comes the family of the first of like, or else IPv4.
// What is no address is left out.
func onePerFamily(ips, like []string) []string {
	var v4, v6 []string
	for _, ip := range ips {
		switch addr, err := netip.ParseAddr(ip); {
		case err != nil:
		case addr.Is4() && v4 == nil:
			v4 = []string{ip}
		case !addr.Is4() && v6 == nil:
			v6 = []string{ip}
		}
	}
	if len(like) > 0 {
		if addr, err := netip.ParseAddr(like[0]); err == nil && !addr.Is4() {
			return append(v6, v4...)
		}
	}
	return append(v4, v6...)
}
