package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// GetPodDNS returns a pod's resolver configuration: the one for its dnsPolicy, with its dnsConfig added (KEP-504),
// truncated to a resolver's limits. The warnings, in a fixed order, report parts that could not be applied; the
// configuration is usable nevertheless.
//
// The node's settings come first, then the pod's. Servers and searches that are listed twice are kept once. A pod's
// option replaces the node's option with the same name. The lists' order is preserved.
//
// pod is required. An unknown dnsPolicy is an error; an empty one is ClusterFirst, the
// API's default.
func GetPodDNS(pod *v1.Pod, node NodeDNS) (*runtimeapi.DNSConfig, []DNSWarning, error) {
	if pod == nil {
		return nil, nil, errors.New("DNS: the pod is nil")
	}
	source, err := dnsSourceOf(&pod.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("DNS of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var warnings []DNSWarning
	if source == fromCluster && len(node.ClusterServers) == 0 {
		source = fromNode
		warnings = append(warnings, DNSWarning{Kind: ClusterDNSMissing})
	}
	if !pod.Spec.HostNetwork {
		node.Servers = reachable(node.Servers)
	}
	config := base(&node, source, pod.Namespace)
	if pod.Spec.DNSConfig != nil {
		merge(config, pod.Spec.DNSConfig)
	}
	return config, append(warnings, cut(config)...), nil
}

// dnsSource is the configuration's source to which the pod's dnsConfig is added.
type dnsSource uint8

const (
	fromNode dnsSource = iota
	fromCluster
	fromNowhere
)

// dnsSourceOf returns the source for a policy. A pod on the node's network gets the cluster's DNS only with the policy
// ClusterFirstWithHostNet.
func dnsSourceOf(spec *v1.PodSpec) (dnsSource, error) {
	switch spec.DNSPolicy {
	case v1.DNSNone:
		return fromNowhere, nil
	case v1.DNSDefault:
		return fromNode, nil
	case v1.DNSClusterFirstWithHostNet:
		return fromCluster, nil
	case v1.DNSClusterFirst, "":
		if spec.HostNetwork {
			return fromNode, nil
		}
		return fromCluster, nil
	}
	return 0, fmt.Errorf("spec.dnsPolicy %q is not known, want ClusterFirst, ClusterFirstWithHostNet, Default or None", spec.DNSPolicy)
}

// base returns the configuration to which the pod's dnsConfig is added.
func base(n *NodeDNS, source dnsSource, namespace string) *runtimeapi.DNSConfig {
	switch source {
	case fromCluster:
		return &runtimeapi.DNSConfig{
			Servers:  slices.Clone(n.ClusterServers),
			Searches: unique(append(clusterSearches(n, namespace), n.Searches...)),
			// Names with fewer dots are tried with the search domains first: enough
			// for name.namespace.svc.<two domain parts>.
			Options: []string{"ndots:5"},
		}
	case fromNode:
		return &runtimeapi.DNSConfig{
			Servers:  slices.Clone(n.Servers),
			Searches: slices.Clone(n.Searches),
			Options:  slices.Clone(n.Options),
		}
	}
	return &runtimeapi.DNSConfig{}
}

// reachable returns the servers that a pod with its own network may reach. A zone, as in fe80::1%eth0, names an interface of
// the node (kubernetes #140844), and a loopback address, as in 127.0.0.53, is the pod's own (kubernetes #49675). If there
// are only loopback addresses, they stay: see [NodeDNS].
func reachable(servers []string) []string {
	inZone := func(s string) bool { return strings.Contains(s, "%") }
	loopback := func(s string) bool {
		ip, err := netip.ParseAddr(s)
		return err == nil && ip.IsLoopback()
	}
	servers = slices.DeleteFunc(slices.Clone(servers), inZone)
	if rest := slices.DeleteFunc(slices.Clone(servers), loopback); len(rest) > 0 {
		return rest
	}
	return servers
}

func clusterSearches(n *NodeDNS, namespace string) []string {
	if n.ClusterDomain == "" {
		return nil
	}
	services := "svc." + n.ClusterDomain
	return []string{namespace + "." + services, services, n.ClusterDomain}
}

func merge(config *runtimeapi.DNSConfig, pod *v1.PodDNSConfig) {
	config.Servers = unique(append(config.Servers, pod.Nameservers...))
	config.Searches = unique(append(config.Searches, pod.Searches...))
	for _, o := range pod.Options {
		text := o.Name
		if o.Value != nil && *o.Value != "" {
			text += ":" + *o.Value
		}
		config.Options = setOption(config.Options, text)
	}
}

// unique returns the strings without repetitions, in the order they first appear.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}
