package agent

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/logs"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/internal/assemble"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/probe"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/userns"
)

// Config configures an Agent. The least is a Client, a Root and a Source. A zero field means the
// default of a kubelet.
type Config struct {
	// Client is the connection to the runtime. Required.
	Client *cri.Client
	// Root is the directory that the agent may write below, an absolute path. Default: see
	// loop.Config.
	Root string
	// NodeName is the involved object of events that concern no pod: that images cannot be removed,
	// or that the node is under pressure. Default: there are no such events.
	NodeName string
	// Sources, Sync, Admission, Watch, Workers and Log are those of a
	// loop.Config. Sources are required.
	Sources   []source.Source
	Sync      syncpod.Config
	Admission loop.Admission
	Watch     pleg.Config
	Workers   podworkers.Config
	Log       logr.Logger

	// NoProbes has the agent run no probes: a container with a startup or readiness probe is then
	// never ready. ProbeObserver receives each check of a probe. Default: none.
	NoProbes      bool
	ProbeObserver probe.Observer

	// NoLogRotation has the agent leave the logs of containers to another program. LogPolicy is the
	// size at which a log is rotated, and the number of files of each container. Default 10 Mi and
	// 5 files. LogInterval is the time between two checks of all logs. Default 10 s.
	NoLogRotation bool
	LogPolicy     logs.RotationPolicy
	LogInterval   time.Duration

	// NoContainerGC has the agent keep dead containers and sandboxes, and their logs, as long as the
	// runtime keeps them. Default: every minute it removes all but the newest dead instance of each
	// container.
	NoContainerGC bool

	// Images configures the pulls of images.
	Images image.Config
	// NoImageGC has the agent remove no images. ImagePolicy decides which images that no container
	// uses are removed, whether this agent has pulled them or not. Default: from 85 % of the disk on,
	// until 80 % are reached.
	NoImageGC   bool
	ImagePolicy image.GCPolicy

	// NoEviction has the agent evict no pods. EvictionPolicy decides when pods are evicted because
	// the node is under pressure of memory, disk or processes, or because they exceed their limits of
	// storage. Under pressure new pods are rejected, too, before Admission decides. Default: the hard
	// thresholds of a kubelet.
	NoEviction     bool
	EvictionPolicy eviction.Policy
	// Evicted is called when the eviction of a pod begins. It must not block. Default: nothing is called.
	Evicted func(eviction.Eviction)

	// NoOOMEvents has the agent not read the kernel's log. By default the kills that the kernel
	// logs for lack of memory become events: OOMKilling of a container, SystemOOM of the node. Where
	// the log may not be read, the agent only says so in its own log.
	NoOOMEvents bool

	// Parts run beside those of the agent.
	Parts []loop.Part

	// cache is shared with the Loop, which keeps it up to date.
	cache *runtime.Cache
	// oom replaces the kernel's log in tests.
	oom oomWatcher
}

// complete checks what the parts have in common, and fills it in.
func (c *Config) complete() error {
	if c.Client == nil {
		return errors.New("agent: Config.Client is missing")
	}
	if err := assemble.CheckClient(c.Client); err != nil {
		return fmt.Errorf("agent: Config.Client is %w", err)
	}
	c.cache = &runtime.Cache{}
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

// imagesDir returns the directory for the grants of images, empty without a Root.
func (c *Config) imagesDir() string {
	if c.Root == "" {
		return ""
	}
	return filepath.Join(c.Root, "images")
}

// loop returns the configuration of the Loop, with its parts.
func (c *Config) loop(parts []loop.Part) loop.Config {
	return loop.Config{
		Client: c.Client, Root: c.Root, Sources: c.Sources, Sync: c.Sync, Admission: c.Admission, Parts: parts,
		Watch: c.Watch, Workers: c.Workers, Log: c.Log,
	}
}
