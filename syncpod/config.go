package syncpod

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/limiter"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign/lines"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/volume"
)

// Config configures a Syncer. Client is required, and Root for pods with volumes. All other fields have
// defaults.
type Config struct {
	// Client is the connection to the runtime. Required.
	Client *cri.Client
	// Root is the absolute path of the directory that the agent may write to: below it are the directories and volumes
	// of pods, and a record of each pod, which the next agent reads. Default: the agent keeps no files. Then containers
	// that mount a volume wait with CreateContainerConfigError, and after a restart the agent lacks the facts that the
	// runtime and the logs do not show (see the package's documentation).
	Root string
	// RuntimeName is the type in container IDs ("containerd" in containerd://...), without a colon
	// or a slash. Default: the name that a Client of cri.Dial received. Required with a Client of cri.NewClient.
	RuntimeName string
	// Owner labels the created objects. Default: the agent "podsync".
	Owner cri.Owner

	// Sink receives the statuses of pods. Default: none.
	Sink StatusSink
	// Events receives the events of pods. Default: none.
	Events EventRecorder
	// Decided is called with each decision on a pod, also one that changes nothing. It must return soon, and modify neither.
	// The Record of a recorder.Recorder keeps them in files. Default: none.
	Decided func(actions.Input, actions.Plan)
	// Observer is notified of steps and their durations. Default: none.
	Observer Observer
	// Log receives a line for each transition. Default: no log.
	Log logr.Logger

	// Node describes the node.
	Node Node
	// Objects returns the objects that specs of pods refer to.
	Objects Objects
	// Extensions are called at certain points of a pod's life.
	Extensions Extensions
	// Limits are timeouts and limits.
	Limits Limits
	// Parts replace the parts that New creates from the Client and the Root.
	Parts Parts
}

// Syncer syncs pods with the runtime. Its methods may be called concurrently for different pods, but only one
// at a time for one pod.
type Syncer struct {
	notices
	config  Config
	known   memories
	pace    *limiter.Limiter
	stopper *lifecycle.Stopper
	starter *containerstart.Starter
}

// New returns a Syncer. It makes no call and starts nothing.
func New(c Config) (*Syncer, error) {
	c.Log = lines.Bound(c.Log)
	for _, step := range []func() error{c.fromClient, c.fromRoot, c.check, c.setLimits} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	c.setDefaults()
	limits := &memory.Limits{Initial: c.Limits.InitialBackOff, Max: c.Limits.MaxBackOff}
	if err := limits.Check(); err != nil {
		return nil, fmt.Errorf("syncpod: Config.Limits.InitialBackOff and MaxBackOff: %w", err)
	}
	s := &Syncer{config: c, pace: limiter.New(c.Limits.MaxParallelStarts, new(limiter.Processors).Spare)}
	s.known.limits, s.known.records, s.notices = limits, &recordStore{c.Parts.Records, c.Log}, notices{&s.config}
	s.config.Events = boundedEvents{c.Events, &s.known}
	var err error
	s.stopper, err = lifecycle.New(lifecycle.Config{
		Runtime: c.Client, Sandboxes: c.Parts.Sandboxes, Hooks: c.Parts.Hooks, Owner: c.Owner, Timeout: c.Limits.StopTimeout, Lifecycle: stopHooks(c.Extensions.Lifecycle),
		Observer: stopObserver{c.Observer}, Events: s.config.Events, Log: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("syncpod: %w", err)
	}
	if s.starter, err = s.newStarter(); err != nil {
		return nil, fmt.Errorf("syncpod: %w", err)
	}
	return s, nil
}

func (c *Config) check() error {
	if err := c.Extensions.check(); err != nil {
		return err
	}
	if err := c.Node.check(); err != nil {
		return fmt.Errorf("syncpod: Config.Node.%w", err)
	}
	return nil
}

// setLimits checks timeouts and limits, and sets the defaults of missing ones.
func (c *Config) setLimits() error {
	for _, field := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Limits.StopTimeout", &c.Limits.StopTimeout, 30 * time.Second},
		{"Limits.CleanupTimeout", &c.Limits.CleanupTimeout, 10 * time.Second},
	} {
		if *field.value < 0 {
			return fmt.Errorf("syncpod: Config.%s is %v, want 0 or more", field.name, *field.value)
		}
		*field.value = cmp.Or(*field.value, field.def)
	}
	if c.Limits.MaxParallelStarts < -1 {
		return fmt.Errorf("syncpod: Config.Limits.MaxParallelStarts is %d, want -1 or more", c.Limits.MaxParallelStarts)
	}
	c.Limits.MaxParallelStarts = cmp.Or(c.Limits.MaxParallelStarts, goruntime.NumCPU()+1)
	return nil
}

// setDefaults sets the defaults of missing parts that need no Client.
func (c *Config) setDefaults() {
	if c.Node.Containers.MemoryBytes == 0 {
		c.Node.Containers.MemoryBytes = nodeMemory()
	}
	if c.Node.Containers.MaskedPaths == nil {
		c.Node.Containers.MaskedPaths = thermalThrottle(cpusDir)
	}
	c.Parts.Clean = append(c.Extensions.cleaners(), c.Parts.Clean...)
	if c.Parts.StatusKeeper == nil {
		c.Parts.StatusKeeper = nopSink{}
		if c.Sink != nil {
			c.Parts.StatusKeeper = copies{c.Sink}
		}
	}
	if c.Parts.Probes == nil {
		c.Parts.Probes = NoProbes{}
	}
	if c.Events == nil {
		c.Events = EventRecorderFunc(noEvents)
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	if c.Parts.Logs == nil {
		c.Parts.Logs = logFiles{podLogs: newPodLogs(cmp.Or(c.Node.LogsRoot, sandbox.DefaultLogsRoot), c.Node.LogLinks)}
	}
}

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
	// Devices allocates devices of the node to containers; a *device.Keeper implements it. It may be PodDevices, too. Default:
	// none.
	Devices Devices
	// CPUSets gives containers exclusive CPUs and memory; a *pinning.Manager implements it. Default: no container is restricted.
	CPUSets CPUSets
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
	if e.CPUSets != nil {
		all = append(all, e.CPUSets)
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

// check returns an error that names the invalid field. It rejects nil elements, because calling one would
// panic.
func (e *Extensions) check() error {
	for i, a := range e.Admit {
		if a == nil {
			return fmt.Errorf("syncpod: Config.Extensions.Admit[%d] is nil", i)
		}
	}
	return nil
}

// check returns an error that names the invalid field.
func (n *Node) check() error {
	for _, dir := range []struct{ field, path string }{{"LogsRoot", n.LogsRoot}, {"LogLinks", n.LogLinks}} {
		if dir.path != "" && !filepath.IsAbs(dir.path) {
			return fmt.Errorf("%s %q is not an absolute path", dir.field, dir.path)
		}
	}
	dns := n.dns()
	for _, list := range []struct {
		field     string
		addresses []string
	}{{"HostIPs", n.hostIPs()}, {"DNS.Servers", dns.Servers}, {"DNS.ClusterServers", dns.ClusterServers}} {
		for i, address := range list.addresses {
			if _, err := netip.ParseAddr(address); err != nil {
				return fmt.Errorf("%s[%d] %q is not an IP address", list.field, i, address)
			}
		}
	}
	if n.Containers.MemoryBytes < 0 {
		return fmt.Errorf("Containers.MemoryBytes is %d, want 0 or more", n.Containers.MemoryBytes)
	}
	return nil
}
