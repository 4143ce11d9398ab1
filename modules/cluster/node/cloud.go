package node

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	// uninitialized is the taint of a Node that no cloud controller manager has completed yet. The cloud controller manager
	// removes it.
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	// providedIPs is the annotation from which a cloud controller manager takes the node's addresses.
	providedIPs = "alpha.kubernetes.io/provided-node-ip"
	// managedAttach is the annotation without which the controller manager attaches no volumes to the node.
	managedAttach = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// taints returns the taints of a new Node.
func (n *Node) taints() []v1.Taint {
	if !n.config.ExternalCloud {
		return n.config.Taints
	}
	return append(n.config.Taints[:len(n.config.Taints):len(n.config.Taints)], v1.Taint{Key: uninitialized, Value: "true", Effect: v1.TaintEffectNoSchedule})
}

// annotations returns the annotations to set when the Node is registered; nil removes an annotation.
func (n *Node) annotations() map[string]*string {
	all := map[string]*string{managedAttach: nil, providedIPs: nil}
	if n.config.VolumesInUse != nil {
		all[managedAttach] = new("true")
	}
	if n.config.ExternalCloud && n.config.ProvidedIPs {
		var ips []string
		for _, ip := range n.config.IPs() {
			ips = append(ips, ip.String())
		}
		all[providedIPs] = new(strings.Join(ips, ","))
	}
	return all
}

// addresses returns the addresses of the Node. If a cloud controller manager writes the addresses, it returns the
// existing ones.
func (n *Node) addresses(there []v1.NodeAddress) (all []v1.NodeAddress) {
	if n.config.ExternalCloud && len(there) > 0 {
		return there
	}
	if !n.config.ExternalCloud || n.config.ProvidedIPs {
		for _, ip := range n.config.IPs() {
			all = append(all, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
		}
	}
	return append(all, v1.NodeAddress{Type: v1.NodeHostName, Address: n.config.Name})
}
