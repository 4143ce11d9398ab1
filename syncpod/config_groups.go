package syncpod

import (
	"context"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume"
)

// Node describes the node that the pods run on.
type Node struct {
	// HostIPs returns the IP addresses of the node, the primary first. It is called at each use, so
	// that statuses have the current addresses. Default: none.
	HostIPs func() []string
	// DialPod connects to a pod for its httpGet, tcpSocket and grpc probes and handlers. Set it if pods are not reachable
	// through the node's network. It must return when its context ends. Default: PodDialer of the Client, which connects
	// to in-memory pods if the Client uses a critest's connection; or else a net.Dialer.
	DialPod func(ctx context.Context, network, address string) (net.Conn, error)
	// Allocatable are the resources that the node can allocate to pods.
	Allocatable v1.ResourceList
	// DNS returns the node's name resolution. Package sandbox derives from it the resolver
	// configuration of each pod. It is called for each
	// sandbox, but the ClusterDomain of /etc/hosts is read by New. Default: the runtime uses the
	// node's configuration; a pod with a dnsConfig has only that.
	DNS func() sandbox.NodeDNS
	// RecursiveReadOnly are the runtime handlers that support recursive read-only mounts
	// (KEP-3857), from the features in the runtime's Status; the default handler is "". Default:
	// none, and containers that require it do not start.
	RecursiveReadOnly []string
	// Containers has the settings that are common to all containers. Its MemoryBytes defaults to
	// the value of the operating system, or DefaultMemoryBytes. Its MaskedPaths default to the
	// thermal_throttle directories of the CPUs.
	Containers container.Node
	// LogsRoot is the directory of the logs of all pods, an absolute path. It is created if it does not exist. Default
	// sandbox.DefaultLogsRoot.
	LogsRoot string
	// LogLinks is the absolute path of a directory for symbolic links to each container's log, for log
	// shippers that read /var/log/containers. It is created if it does not exist. Default: no links.
	LogLinks string
}

func (n *Node) hostIPs() []string {
	if n.HostIPs == nil {
		return nil
	}
	return n.HostIPs()
}

func (n *Node) dns() sandbox.NodeDNS {
	if n.DNS == nil {
		return sandbox.NodeDNS{}
	}
	return n.DNS()
}

// Objects gets API objects that specs of pods name.
type Objects struct {
	// Sources get ConfigMaps, Secrets and Services for environment variables, and ConfigMaps and Secrets for volumes.
	env.Sources
	// Tokens returns tokens of service accounts for volumes. Default: a pod that needs a token fails.
	Tokens volume.Tokens
	// Projections provides ClusterTrustBundles and PodCertificates for projected volumes. Default: a pod that needs one
	// waits.
	Projections volume.Projections
	// PullSecrets gets the secrets to pull images with. Default: none.
	PullSecrets PullSecrets
	// RuntimeClasses returns runtime classes. Default: pods that name a runtime class fail.
	RuntimeClasses sandbox.RuntimeClasses
}

// Extensions are called at certain points of a pod's life. Nil extensions are skipped.
type Extensions struct {
	// Admit are checks that a pod must pass in order to run, in this order. Each sync of the pod calls
	// them again, so they must return quickly. A rejected pod waits. To reject a pod for good, use
	// agent.Config.Admission.
	Admit []Admitter
	// Network reports whether the node's network is ready. Default: it is.
	Network Network
	// Cgroups creates pod cgroups; a *tree.Tree implements it. Default: the runtime chooses them.
	Cgroups Cgroups
	// Lifecycle is called before each container is created, started and stopped, and after its stop. Default: none.
	Lifecycle ContainerLifecycle
	// Allocations decides which resources are allocated to a pod when its requests change; a
	// *resize.Allocator implements it. Default: the requested resources.
	Allocations Allocations
	// Devices allocates devices of the node to containers; a *device.Keeper implements it. Default:
	// none.
	Devices Devices
	// UserNamespaces allocates ID ranges to pods with a user namespace (spec.hostUsers false); a *userns.Allocator
	// implements it. Default: such pods fail, unless Config.Parts.Prepare provides the mapping.
	UserNamespaces UserNamespaces
	// Volumes provides the volumes that need a driver, such as those of PersistentVolumeClaims. It requires a Root.
	// Default: pods with such volumes fail.
	Volumes volume.Plugin
}

// cleaners returns the extensions that free resources of a pod. They run before the directory removal, which may
// take long, because other pods may wait for cgroups, resources and devices.
func (e *Extensions) cleaners() (all []Cleaner) {
	if e.Cgroups != nil {
		all = append(all, e.Cgroups)
	}
	if e.Allocations != nil {
		all = append(all, e.Allocations)
	}
	if e.Devices != nil {
		all = append(all, e.Devices)
	}
	if e.UserNamespaces != nil {
		all = append(all, e.UserNamespaces)
	}
	return all
}

// Limits are timeouts, back-offs and limits on concurrency.
type Limits struct {
	// InitialBackOff and MaxBackOff are the first and the longest pause before a container that
	// crashes, or cannot be created, is retried; the pause doubles each time. Default those of package
	// backoff, 10 s and 5 min.
	InitialBackOff, MaxBackOff time.Duration
	// StopTimeout is how long the runtime may take for a stop, in addition to the processes' grace
	// period. After that the stop is abandoned and retried. Default 30 s.
	StopTimeout time.Duration
	// CleanupTimeout limits the cleanup after a call's context has ended. Default 10 s.
	CleanupTimeout time.Duration
	// MaxParallelStarts is the maximum number of sandboxes and containers that start at a time while
	// the node has no idle processor. Other starts queue, with those of pods that have a sandbox first.
	// So most of many pods start sooner, and the last one no later. If fewer than this many would
	// queue, all start at once. Starts that wait for something other than a processor do not block
	// others for long. Default: the number of processors plus one. -1 means no limit.
	MaxParallelStarts int
}
