package syncpod

import (
	"cmp"
	"fmt"
	goruntime "runtime"
	"time"

	"github.com/go-logr/logr"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/limiter"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign/lines"
	"github.com/podsync/podsync/sandbox"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory"
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
