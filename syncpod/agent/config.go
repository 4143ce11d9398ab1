package agent

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/probe"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/store"
	"github.com/podsync/podsync/syncpod/userns"
)

// Config configures an Agent. It requires a Client, a Root and a Source. A zero field means a kubelet's
// default.
type Config struct {
	// Client is the connection to the runtime. Required.
	Client *cri.Client
	// Root is the absolute path of the directory below which the agent writes its files. Default: see
	// loop.Config.
	Root string
	// NodeName is the involved object of events that concern no pod: that images cannot be removed, or
	// that the node is under pressure. Default: such events are not recorded.
	NodeName string
	// Sources, StopUnknown, Sync, Admission, Watch, Workers, Finished, Log, Reader, Cache and Store are the fields of a loop.Config. Sources
	// are required. Sync.Parts.Probes requires NoProbes, and Sync.Parts.Images requires NoImageGC, because the agent does
	// not know which images are about to be used.
	Sources     []source.Source
	StopUnknown bool
	Sync        syncpod.Config
	Admission   loop.Admission
	Watch       pleg.Settings
	Workers     podworkers.Config
	Finished    func(pod types.UID)
	Log         logr.Logger
	Reader      loop.Reader
	Cache       *runtime.Cache
	Store       store.Store

	// NoProbes turns probes off; a container with a startup or readiness probe is then never ready.
	// ProbeObserver receives each probe's result. Default: none.
	NoProbes      bool
	ProbeObserver probe.Observer

	// NoLogRotation leaves container logs to another program. LogPolicy has the size at which a log
	// is rotated, and the number of files of each container. Default 10 Mi and 5 files. LogInterval
	// is the time between two checks of all logs. Default 10 s.
	NoLogRotation bool
	LogPolicy     logs.RotationPolicy
	LogInterval   time.Duration

	// NoContainerGC keeps dead containers and sandboxes, and their logs, as long as the runtime keeps
	// them. By default the agent removes, every minute, all but the newest dead instance of each
	// container.
	NoContainerGC bool

	// Images configures image pulls.
	Images image.Settings
	// NoImageGC keeps all images. ImagePolicy determines when the agent removes images that no
	// container uses, whether or not it has pulled them. Default: from 85 % usage of the disk, until
	// 80 % is reached.
	NoImageGC   bool
	ImagePolicy image.GCPolicy

	// NoEviction turns evictions off. EvictionPolicy determines when the agent evicts pods: if the node
	// is under pressure of memory, disk or processes, or if they exceed their storage limits. Under
	// pressure the agent also rejects new pods, before it calls Admission. Default: the hard
	// thresholds of a kubelet.
	NoEviction     bool
	EvictionPolicy eviction.Policy
	// Stats measures the node and its pods for evictions. Default: Agent.Stats.
	Stats stats.Source
	// Evicted is called when the pod's eviction begins. It must not block. Default: none.
	Evicted func(eviction.Eviction)

	// NoOOMEvents turns events about the kernel's OOM kills off. By default the agent reads the
	// kernel's log and records the kills as events: OOMKilling of a container, SystemOOM of the node.
	// If it may not read the log, it only writes a line to its own log.
	NoOOMEvents bool

	// Parts are parts of the caller. They run like the agent's own.
	Parts []loop.Part

	// oom replaces the kernel's log in tests.
	oom oomWatcher
}

// complete checks the fields that several parts use, and sets their defaults.
func (c *Config) complete() error {
	if c.Client == nil {
		return errors.New("agent: Config.Client is missing")
	}
	if err := c.Client.Validate(); err != nil {
		return fmt.Errorf("agent: Config.Client is %w", err)
	}
	if c.Sync.Node.DialPod == nil {
		c.Sync.Node.DialPod = c.Client.PodDialer()
	}
	for _, f := range []struct {
		part, requires string
		invalid        bool
	}{
		{"Probes", "NoProbes", c.Sync.Parts.Probes != nil && !c.NoProbes},
		{"Images", "NoImageGC", c.Sync.Parts.Images != nil && !c.NoImageGC},
	} {
		if f.invalid {
			return fmt.Errorf("agent: Config.Sync.Parts.%s is set, which requires Config.%s", f.part, f.requires)
		}
	}
	if c.Cache == nil {
		c.Cache = &runtime.Cache{}
	}
	if c.Images.Runtime == nil {
		c.Images.Runtime = c.Client
	}
	c.Sync.Root = cmp.Or(c.Sync.Root, c.Root)
	if c.Sync.Extensions.UserNamespaces == nil && c.Sync.Root != "" {
		namespaces, err := userns.New(userns.Config{Dir: filepath.Join(c.Sync.Root, "pods"), Runtime: c.Client})
		if err != nil {
			return fmt.Errorf("agent: Config.Sync.Root: %w", err)
		}
		c.Sync.Extensions.UserNamespaces = namespaces
	}
	return nil
}

// imagesDir returns the directory for image grants, "" without a Root.
func (c *Config) imagesDir() string {
	if c.Root == "" {
		return ""
	}
	return filepath.Join(c.Root, "images")
}

// loop returns the configuration of the Loop with the parts.
func (c *Config) loop(parts []loop.Part) loop.Config {
	return loop.Config{
		Client: c.Client, Root: c.Root, Sources: c.Sources, StopUnknown: c.StopUnknown, Sync: c.Sync, Admission: c.Admission, Parts: parts,
		Watch: c.Watch, Workers: c.Workers, Finished: c.Finished, Log: c.Log, Reader: c.Reader, Cache: c.Cache, Store: c.Store,
	}
}
