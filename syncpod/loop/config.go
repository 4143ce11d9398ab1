package loop

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/internal/assemble"
	"github.com/podsync/podsync/syncpod/source"
	statusstore "github.com/podsync/podsync/syncpod/store"
)

// Config configures a Loop. It requires a Client, a Root and a Source.
//
// Sync, Watch and Workers are the configurations of the packages that a Loop connects. The Loop sets the
// fields that connect them; New returns an error if one of those is set.
type Config struct {
	// Client is the connection to the runtime. Required.
	Client *cri.Client
	// Root is the absolute path of the directory that the agent may write to. It is also Sync.Root, and the
	// state of pods is persisted below it. It is created when needed, not by New; Health reports a failure.
	// Default: nothing outlives the agent except the state in the runtime, and pods that need files (for any
	// volume, even an emptyDir) do not start.
	Root string
	// Sources provide the pods that should run. Required; their names must differ. If two have a
	// pod with the same UID, the first one takes precedence.
	Sources []source.Source

	// Sync configures the work on pods. Its Client must be nil. Its Sink receives each status after the status is stored
	// below Root. Its Events may block: events are queued, up to 1,000 of them, and those of one pod stay in order. Beyond
	// that the oldest are dropped, and its Observer is notified.
	Sync syncpod.Config
	// Admission decides which new pods may run on the node. Default: all may.
	Admission Admission
	// Parts run alongside the pods, from the start of Run until its end.
	Parts []Part

	// Watch configures the detection of changes in the runtime. Syncs inspect pods through the watcher.
	Watch pleg.Settings
	// Workers determines when pods are synced. Its Syncer and Status must be nil. Its Observer must not call
	// the Loop. Its ResyncInterval is by default 5 min, because every change is reported.
	Workers podworkers.Config

	// Log gets a line for each pod that is added, changed or removed at its source, and for each pod or object
	// that a source rejects. It is also the Log of Sync and Workers if those are zero. Default: no log.
	Log logr.Logger

	fromClient
	store statusstore.Store
}

func (c Config) withDefaults() (Config, error) {
	if err := c.checkSources(); err != nil {
		return c, err
	}
	if err := c.checkParts(); err != nil {
		return c, err
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
		def   time.Duration
	}{
		{"Sync.Limits.CleanupTimeout", &c.Sync.Limits.CleanupTimeout, 10 * time.Second},
		{"Workers.ResyncInterval", &c.Workers.ResyncInterval, 5 * time.Minute},
	} {
		if *d.field < 0 {
			return c, fmt.Errorf("loop: Config.%s is negative: %v", d.name, *d.field)
		}
		if *d.field == 0 {
			*d.field = d.def
		}
	}
	return c.connected()
}

func (c *Config) checkSources() error {
	if len(c.Sources) == 0 {
		return errors.New("loop: Config.Sources is empty: nothing would say which pods should run")
	}
	names := map[string]int{}
	for i, s := range c.Sources {
		if s == nil {
			return fmt.Errorf("loop: Config.Sources[%d] is nil", i)
		}
		if s.Name() == "" {
			return fmt.Errorf("loop: Config.Sources[%d] has no name", i)
		}
		if p, ok := s.(*source.Push); ok && p.Static() && p.Name() == runtime.ConfigSourceAPI {
			return fmt.Errorf("loop: Config.Sources[%d] is a Push of static pods with the name %q, which is that of other pods: source.NewPush makes one of them", i, p.Name())
		}
		if first, taken := names[s.Name()]; taken {
			return fmt.Errorf("loop: Config.Sources[%d] has the name %q of Sources[%d]", i, s.Name(), first)
		}
		names[s.Name()] = i
	}
	return nil
}

func (c *Config) checkParts() error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Sync.Client", c.Sync.Client != nil},
		{"Workers.Syncer", c.Workers.Syncer != nil},
		{"Workers.Status", c.Workers.Status != nil},
	} {
		if f.set {
			return fmt.Errorf("loop: Config.%s is set, which is for the Loop to do", f.name)
		}
	}
	if c.Client == nil {
		return errors.New("loop: Config.Client is missing")
	}
	if err := assemble.CheckClient(c.Client); err != nil {
		return fmt.Errorf("loop: Config.Client is %w", err)
	}
	for i, part := range c.Parts {
		if part == nil {
			return fmt.Errorf("loop: Config.Parts[%d] is nil", i)
		}
	}
	if c.Root != "" && !filepath.IsAbs(c.Root) {
		return fmt.Errorf("loop: Config.Root %q is not an absolute path", c.Root)
	}
	return nil
}

// connected sets the fields that the parts share.
func (c Config) connected() (Config, error) {
	c.Sync.Client = c.Client
	if c.Sync.Root == "" {
		c.Sync.Root = c.Root
	}
	if c.Watch.Observer == nil {
		c.Watch.Observer = pleg.NopObserver{}
	}
	if c.Workers.Observer == nil {
		c.Workers.Observer = podworkers.NopObserver{}
	}
	c.shareLog()
	for _, fill := range []func() error{c.makeFromClient, c.makeStore} {
		if err := fill(); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *Config) shareLog() {
	for _, log := range []*logr.Logger{&c.Sync.Log, &c.Workers.Log} {
		if log.IsZero() {
			*log = c.Log
		}
	}
}

func (c *Config) makeStore() error {
	if c.store = c.Sync.Deps.Store; c.store != nil {
		return nil
	}
	if c.Root == "" {
		c.store = statusstore.None{}
		return nil
	}
	store, err := statusstore.NewFiles(filepath.Join(c.Root, "statuses"))
	if err != nil {
		return fmt.Errorf("loop: Config.Root: %w", err)
	}
	c.store = store
	return nil
}
