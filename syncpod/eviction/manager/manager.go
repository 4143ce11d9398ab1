package manager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/eviction"
)

// Agent gives a Manager access to an agent's pods. Its methods are called concurrently.
type Agent interface {
	// Running returns the pods that may have a running container, in a fixed order, with their
	// status from the runtime. It includes a terminating pod as long as a container in the pod runs.
	Running() []Pod
	// Find returns a pod, nil if it is unknown, and whether no source wants a pod with that UID.
	Find(pod types.UID) (known *v1.Pod, unwanted bool)
	// Evict stops a pod and reports it. It returns when nothing of the pod runs; the pod stops
	// even if ctx ends first.
	Evict(ctx context.Context, e eviction.Eviction) error
	// CleanedUp reports whether a pod that was evicted has nothing left on the node.
	CleanedUp(pod types.UID) bool
	// Reclaim removes unused resources.
	Reclaim(ctx context.Context, what eviction.Reclaim) error
	// Warn records an event of a pod, or of the node if about is nil. annotations are those of the event, nil for none.
	Warn(about *v1.Pod, reason, message string, annotations map[string]string)
}

// Pod is a pod that runs.
type Pod struct {
	Pod *v1.Pod
	// Status is the pod's status in the runtime, nil if it is unknown.
	Status *runtime.PodStatus
}

// Config configures a Manager.
type Config struct {
	// Policy determines when pods are evicted.
	Policy eviction.Policy
	// Agent has the pods. Required.
	Agent Agent
	// Stats reads resource usage. Required.
	Stats stats.Source
	// PodsRoot has pod directories, PodsRoot/<UID>/volumes/<kind>/<name>, and LogsRoot their
	// logs, LogsRoot/<namespace>_<name>_<UID>: absolute paths. Default: this disk usage counts
	// as nothing.
	PodsRoot, LogsRoot string
	// State is the absolute path of the directory in which evictions in progress are persisted; it is
	// created when needed. Default: evictions are not persisted.
	State string
	// Evicted is called at each eviction's start. It must not block. Default: none.
	Evicted func(eviction.Eviction)
	// Log receives a line for each evicted pod and for each change to the pressure. Default: no
	// log.
	Log logr.Logger
}

// A Manager periodically observes a node and evicts pods when it runs low on resources. Create one
// with New. Its methods may be called concurrently, except that calls to Synchronize must not overlap.
type Manager struct {
	config Config
	rules  eviction.Rules
	state  podfile.Dir
	disk   measurer
	// evictions counts eviction goroutines in flight, and of a measurement.
	evictions sync.WaitGroup
	// Only Synchronize uses these: whether evictions of an earlier agent were read, the last log line, and
	// the measurement in progress, nil if there is none.
	restored bool
	logged   string
	pass     *runningPass

	mu     sync.Mutex
	last   eviction.Decision
	ending map[types.UID]*ending
	// left are the evictions that must still be carried out: those of an earlier agent, and failed ones.
	left map[types.UID]eviction.Eviction
}

// New returns a Manager that does nothing until Synchronize is called. The error names the missing or invalid field of
// the Config.
func New(c Config) (*Manager, error) {
	switch {
	case c.Agent == nil:
		return nil, errors.New("eviction/manager: Config.Agent is missing")
	case c.Stats == nil:
		return nil, errors.New("eviction/manager: Config.Stats is missing")
	}
	for _, f := range []struct{ name, path string }{{"PodsRoot", c.PodsRoot}, {"LogsRoot", c.LogsRoot}, {"State", c.State}} {
		if f.path != "" && !filepath.IsAbs(f.path) {
			return nil, fmt.Errorf("eviction/manager: Config.%s %q is not an absolute path", f.name, f.path)
		}
	}
	rules, err := eviction.ParsePolicy(c.Policy)
	if err != nil {
		return nil, fmt.Errorf("eviction/manager: Config.Policy: %w", err)
	}
	if c.Evicted == nil {
		c.Evicted = func(eviction.Eviction) {}
	}
	return &Manager{
		config: c, rules: rules, state: podfile.Dir(c.State), disk: measurer{podsRoot: c.PodsRoot, logsRoot: c.LogsRoot, walk: filetree.WalkUnchanged, known: map[types.UID]measured{}},
		ending: map[types.UID]*ending{}, left: map[types.UID]eviction.Eviction{},
	}, nil
}

// Last returns the last decision, with the node's conditions; the zero Decision before the
// first Synchronize.
func (m *Manager) Last() eviction.Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Wait returns when no eviction is in flight any more, and nothing is measured.
func (m *Manager) Wait() { m.evictions.Wait() }

// readTimeout is one reading's timeout; partial results are used.
const readTimeout = 30 * time.Second

// Synchronize reads the node's resources, decides, and starts to act. It waits for removals, but not for
// pods to end; removals end with ctx, but pods stop nevertheless. A measurement for storage limits
// may outlast Synchronize: a later Synchronize uses its result.
func (m *Manager) Synchronize(ctx context.Context) {
	m.resume(ctx)
	now := time.Now()
	state := eviction.State{Ending: m.housekeep(now), Memory: m.Last().Memory}
	m.readNode(ctx, &state)
	d := eviction.Decide(m.rules, state, now)
	if len(d.Reclaim) > 0 {
		m.reclaim(ctx, d)
		state.Reclaimed, state.Memory = true, d.Memory
		m.readNode(ctx, &state)
		now = time.Now()
		d = eviction.Decide(m.rules, state, now)
	}
	if pods := m.wanted(ctx, d, len(state.Ending) > 0, now); len(pods) > 0 {
		state.Pods = m.candidates(ctx, pods)
		d = eviction.Decide(m.rules, state, now)
	}
	if ctx.Err() != nil {
		return
	}
	m.record(d)
	for _, e := range d.Evict {
		m.evict(ctx, e)
	}
}

// readNode reads what signals watch.
func (m *Manager) readNode(ctx context.Context, s *eviction.State) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	node, err := m.config.Stats.ReadNode(ctx)
	if err != nil && ctx.Err() == nil {
		m.config.Log.V(1).Info("not all of the node can be read", "err", err.Error())
	}
	s.Readings, s.Layout = readings(node, time.Now()), layout(node)
}

// wanted returns the pods to decide about: all of them if one may have to be evicted for the node, and
// otherwise, at intervals, those with storage limits. It leaves out pods that are being evicted.
//
// It measures disk usage first only if the node is short of disk. An eviction for memory or processes
// does not wait for a measurement, because containers can make it slow.
func (m *Manager) wanted(ctx context.Context, d eviction.Decision, busy bool, now time.Time) []Pod {
	all := func(*v1.Pod) bool { return true }
	due := slices.IndexFunc(d.Met, func(met eviction.Met) bool { return met.Due })
	switch {
	case due >= 0 && !busy && eviction.OfDisk(d.Met[due].Signal):
		pods := m.running(all)
		m.measure(ctx, pods, now)
		return pods
	case due >= 0 && !busy:
		m.measured(ctx, now, 0)
		return m.running(all)
	case m.measured(ctx, now, passPatience):
		return m.running(eviction.HasStorageLimits)
	}
	return nil
}

func (m *Manager) running(which func(*v1.Pod) bool) []Pod {
	var pods []Pod
	for _, p := range m.config.Agent.Running() {
		if p.Pod != nil && !m.evicting(p.Pod.UID) && which(p.Pod) {
			pods = append(pods, p)
		}
	}
	return pods
}

// candidates returns the pods with their usage. Disk usage comes from the last measurement.
func (m *Manager) candidates(ctx context.Context, pods []Pod) []eviction.Candidate {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var statuses []*runtime.PodStatus
	for _, p := range pods {
		if p.Status != nil {
			statuses = append(statuses, p.Status)
		}
	}
	read, err := m.config.Stats.Read(ctx, statuses)
	if err != nil && ctx.Err() == nil {
		m.config.Log.V(1).Info("not all of what pods use can be read", "err", err.Error())
	}
	list := make([]eviction.Candidate, len(pods))
	for i, p := range pods {
		list[i] = eviction.Candidate{Pod: p.Pod, Usage: m.disk.complete(p.Pod, usageOf(read.Pods, p.Pod.UID))}
	}
	return list
}

// reclaim removes unused resources.
func (m *Manager) reclaim(ctx context.Context, d eviction.Decision) {
	for _, r := range d.Reclaim {
		if err := m.config.Agent.Reclaim(ctx, r); err != nil && ctx.Err() == nil {
			m.config.Log.Error(err, "not removed", "what", r.String())
		}
	}
}

// record stores a decision and logs changes.
func (m *Manager) record(d eviction.Decision) {
	short := ""
	for _, met := range d.Met {
		short += met.Threshold.String() + " "
	}
	for _, p := range d.Problems {
		short += p.Threshold.String() + "? " // why may change each time
	}
	m.mu.Lock()
	m.last = d
	m.mu.Unlock()
	if short != m.logged {
		m.logged = short
		m.config.Log.Info("what the node is short of", "decision", d.String())
	}
	for _, e := range d.Evict {
		if e.Disruption {
			m.config.Agent.Warn(nil, "EvictionThresholdMet", "Attempting to reclaim "+string(eviction.ResourceOf(e.Signal)), nil)
		}
	}
}
