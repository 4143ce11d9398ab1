package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign/lines"
	"github.com/podsync/podsync/runtime/pleg"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod"
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
	// pod state is persisted below it. It is created when needed, not by New; Health reports a failure.
	// Default: nothing outlives the agent except the state in the runtime, and pods that need files (for any
	// volume, even an emptyDir) do not start.
	Root string
	// Sources provide the pods that should run. Required; their names must differ. If two have a
	// pod with the same UID, the first one takes precedence.
	Sources []source.Source
	// StopUnknown stops the pods that an earlier agent has left, even if the source knows none of them by name. It matters
	// only for sources whose pods are inferred, such as a source.Folder: the folder may be the wrong one or not be mounted,
	// or the node's name, which ends pod names, may be another. By default these pods then keep running, and Health lists
	// them. No new pod of the source starts, because another version of it may run. Both end when the source knows one of
	// the pods, or all of them have been removed from the runtime. A source that lists its pods explicitly, such as a
	// source.Push, is always trusted.
	StopUnknown bool

	// Sync configures the work on pods. Its Client must be nil. Its Sink receives each status after the status is stored
	// below Root. Its Events may block: events are queued, up to 1,000 of them, and those of one pod stay in order. Beyond
	// that the oldest are dropped, and its Observer is notified.
	Sync syncpod.Config
	// Admission decides which new pods may run on the node. Default: all may.
	Admission Admission
	// Parts run alongside the pods, from Run's start until its end.
	Parts []Part

	// Watch configures the change detection in the runtime. Syncs inspect pods through the watcher.
	Watch pleg.Settings
	// Workers determines when pods are synced. Its Syncer, Status and Tracker must be nil. Its Observer must not call
	// the Loop. Its ResyncInterval is by default 5 min, because every change is reported.
	Workers podworkers.Config

	// Finished is called when a pod has finished: nothing of it runs, and its last status was reported, so that its object may be
	// deleted at its source. It must return soon, and must not call the Loop. Default: not called.
	Finished func(pod types.UID)

	// Log gets a line for each pod that is added, changed or removed at its source, and for each pod or object
	// that a source rejects. It is also the Log of Sync and Workers if those are zero. Default: no log.
	Log logr.Logger

	// Reader reads the runtime's pods, for the watcher and the Syncer. Default: a *reader.Reader of the Client.
	Reader Reader
	// Cache gets each pod's newest status from the watcher. Default: a new one. Loop.Cache returns it.
	Cache *runtime.Cache
	// Store persists the statuses that the Loop has reported, for the next agent. Default: with a Root, files below it;
	// without, none.
	Store statusstore.Store
}

// Reader reads pods from the runtime. A *reader.Reader implements it.
type Reader interface {
	pleg.Reader
	// SandboxStatus reads one sandbox, with its addresses.
	SandboxStatus(ctx context.Context, id string) (runtime.SandboxStatus, error)
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
		{"Sync.Parts.Statuses", c.Sync.Parts.Statuses != nil},
		{"Sync.Parts.StatusKeeper", c.Sync.Parts.StatusKeeper != nil},
		{"Sync.Parts.Newest", c.Sync.Parts.Newest != nil},
		{"Workers.Syncer", c.Workers.Syncer != nil},
		{"Workers.Status", c.Workers.Status != nil},
		{"Workers.Tracker", c.Workers.Tracker != nil},
	} {
		if f.set {
			return fmt.Errorf("loop: Config.%s is set, which is for the Loop to do", f.name)
		}
	}
	if c.Client == nil {
		return errors.New("loop: Config.Client is missing")
	}
	if err := c.Client.Validate(); err != nil {
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
	if c.Finished == nil {
		c.Finished = func(types.UID) {}
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
	c.Log = lines.Bound(c.Log)
	for _, log := range []*logr.Logger{&c.Sync.Log, &c.Workers.Log} {
		if log.IsZero() {
			*log = c.Log
		}
		*log = lines.Bound(*log)
	}
}

// makeFromClient creates the missing parts that a Loop and its Syncer share.
func (c *Config) makeFromClient() (err error) {
	name := cmp.Or(c.Sync.RuntimeName, c.Client.RuntimeName())
	if err := runtime.CheckRuntimeName(name); err != nil {
		return fmt.Errorf("loop: Config.Sync.%w", err)
	}
	if c.Reader == nil {
		if c.Reader, err = podreader.New(podreader.Config{Runtime: c.Client, RuntimeName: name, Owner: c.Sync.Owner}); err != nil {
			return fmt.Errorf("loop: Config.Sync: %w", err)
		}
	}
	if c.Cache == nil {
		c.Cache = &runtime.Cache{}
	}
	if c.Sync.Parts.Probes == nil {
		c.Sync.Parts.Probes = syncpod.NoProbes{}
	}
	if c.Sync.Parts.Sandboxes == nil { // only one stop of a sandbox may be in flight
		if c.Sync.Parts.Sandboxes, err = run.New(run.Config{Runtime: c.Client, Owner: c.Sync.Owner, Log: c.Sync.Log}); err != nil {
			return fmt.Errorf("loop: Config.Sync: %w", err)
		}
	}
	return nil
}

func (c *Config) makeStore() error {
	if c.Store != nil {
		return nil
	}
	if c.Root == "" {
		c.Store = statusstore.None{}
		return nil
	}
	store, err := statusstore.NewFiles(filepath.Join(c.Root, "statuses"))
	if err != nil {
		return fmt.Errorf("loop: Config.Root: %w", err)
	}
	c.Store = store
	return nil
}

// Admission decides which new pods may run on the node, for example by the remaining resources. It
// is called for one pod at a time, in the order of creation of pods that arrived together.
//
// It is called once for each pod. It is not called for a pod that already ran before the agent was
// started, nor for one that has finished or is deleted. A check that must hold while a pod runs is
// an Admitter in syncpod.Extensions.Admit.
type Admission interface {
	// Admit returns nil if the pod may run next to the given active pods, which were admitted and
	// have not finished. A rejected pod is reported as Failed with the reason and the message, and
	// never started. Pods must not be modified. New pods wait for Admit, so it should not block.
	Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection
}

// AdmissionFunc is a function that is an [Admission].
type AdmissionFunc func(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection

// Admit calls f.
func (f AdmissionFunc) Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
	return f(pod, activePods)
}

// A Part runs alongside the pods of a Loop: it rotates logs, for example, or evicts pods. Package
// [github.com/podsync/podsync/syncpod/agent] has the parts of a kubelet.
type Part interface {
	// Run runs until ctx ends. An error that it returns before then ends the Loop.
	Run(ctx context.Context, host Host) error
}

// A Host is the Loop as its parts see it. Its methods may be called concurrently.
type Host interface {
	// RuntimeShouldBeRemoved reports whether a pod's dead containers and sandboxes may be removed, and
	// ContentShouldBeRemoved whether its volumes and logs may be removed. For an unknown pod both report
	// true once all sources have delivered their pods.
	RuntimeShouldBeRemoved(pod types.UID) bool
	ContentShouldBeRemoved(pod types.UID) bool
	// Pods returns the pods as Loop.Pods does.
	Pods() []Pod
	// State returns a pod's state in the workers.
	State(pod types.UID) podworkers.PodState
	// KillPod stops a pod as Loop.KillPod does.
	KillPod(ctx context.Context, pod types.UID, stop podworkers.StopRequest) error
	// PodChanged requests a sync of a pod.
	PodChanged(pod types.UID)
	// Available returns nil, or why the runtime is unavailable.
	Available() error
	// Events records events. They wait for the recorder of the Config; without one they are
	// dropped.
	Events() syncpod.EventRecorder
}
