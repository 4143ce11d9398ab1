package sandbox

import "context"

// DefaultLogsRoot is where log shippers look for pod logs.
const DefaultLogsRoot = "/var/log/pods"

// NodeDNS is what a node knows about name resolution. Everything is optional.
type NodeDNS struct {
	// Servers, Searches and Options are the node's own resolver configuration; see
	// [ParseResolvConf]. For a node without one, whose pods' lookups should end on the node, use
	// Servers ["127.0.0.1"] and Searches ["."].
	Servers, Searches, Options []string
	// ClusterServers are the cluster's DNS service addresses. Without one, pods
	// that ask for cluster DNS get the node's configuration, and a warning.
	ClusterServers []string
	// ClusterDomain is the cluster's DNS domain, such as "cluster.local".
	// Without it the cluster's search domains are left out.
	ClusterDomain string
}

// RuntimeClasses knows the cluster's runtime classes.
type RuntimeClasses interface {
	// LookupRuntimeHandler returns the handler for the runtime class with that name,
	// which may be empty for the runtime's default. A class that does not exist is an
	// error.
	RuntimeHandler(ctx context.Context, class string) (string, error)
}
