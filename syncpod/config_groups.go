package syncpod

import (
	"context"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/deps"
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
	// DialPod connects to a pod for its httpGet, tcpSocket and grpc probes and handlers, where pods are not reached through
	// the node's network: critest's Runtime.DialPod reaches those in memory. It must return when its context ends. Default: a
	// net.Dialer.
	DialPod func(ctx context.Context, network, address string) (net.Conn, error)
	// Allocatable is what the node can give to pods.
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
	// LogsRoot is the directory of the logs of all pods, an absolute path; it is made if
	// missing. Default sandbox.DefaultLogsRoot.
	LogsRoot string
	// LogLinks is the directory that gets a symbolic link to each container's log,
	// for log shippers that look in /var/log/containers: an absolute path; it is made if
	// missing. Default: no links.
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
	// Sources get ConfigMaps, Secrets and Services for environment variables; the first two for
	// volumes, too.
	env.Sources
	// Tokens gets tokens of service accounts for volumes. Default: a pod that wants
	// one fails.
	Tokens volume.Tokens
	// PullSecrets gets the secrets to pull images with. Default: none.
	PullSecrets PullSecrets
	// RuntimeClasses knows runtime classes. Default: pods that name one fail.
	RuntimeClasses sandbox.RuntimeClasses
}

// Extensions are called at certain points of a pod's life. Without one nothing
// happens there.
type Extensions struct {
	// Admit are the checks that a pod has to pass to run, in order. Each work on the pod
	// asks again, so they must be quick; a pod that is refused waits. To refuse one for good
	// use agent.Config.Admission.
	Admit []Admitter
	// Network says whether pods can have a network. Default: they can.
	Network Network
	// Cgroups makes the cgroups of pods; package tree has one. Default: that is left to
	// the runtime.
	Cgroups Cgroups
	// Allocations decides which resources are allocated to a pod when its requests change; a
	// *resize.Allocator implements it. Default: the requested ones.
	Allocations Allocations
	// Devices allocates devices of the node to containers; a *device.Keeper implements it. Default:
	// none.
	Devices Devices
	// UserNamespaces allocates IDs to pods with user namespaces of their own (spec.hostUsers false); a *userns.Allocator implements
	// it. Default: such pods fail, unless Deps.Prepare provides the mapping.
	UserNamespaces UserNamespaces
	// Volumes provides volumes that the node does not make by itself, such as those of PersistentVolumeClaims. It needs
	// a Root. Default: pods that have such volumes fail.
	Volumes volume.Plugin
}

// cleaners returns the extensions that free what they keep for a pod. They come before the removal of directories, which
// may take long, because other pods may wait for cgroups, resources and devices.
func (e *Extensions) cleaners() (all []deps.Cleaner) {
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

// Limits say how long things may take, and how many may happen at a time.
type Limits struct {
	// InitialBackOff and MaxBackOff are the waits before a container that crashes, or
	// cannot be made, is tried again; they double from the one to the other. Default
	// those of package backoff, 10 s and 5 min.
	InitialBackOff, MaxBackOff time.Duration
	// StopTimeout is how long the runtime may take, beyond the grace period given to
	// the processes, until a stop is given up to be tried again. Default 30 s.
	StopTimeout time.Duration
	// CleanupTimeout limits the cleanup after the context of a call has ended. Default 10 s.
	CleanupTimeout time.Duration
	// MaxParallelStarts limits how many sandboxes and containers start at a time while the node has
	// no idle processor; the others queue, those of pods that have a sandbox first. If fewer than
	// this many would queue, all start at once. So most of many pods start sooner, and the last no
	// later. Starts that wait for something other than a processor do not block others for long.
	// Default: the number of processors plus one. -1 means no limit.
	MaxParallelStarts int
}
