package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
)

// A Loop keeps the pods of its sources running. Create one with New. Its methods may be called
// concurrently.
type Loop struct {
	config     Config
	syncer     *syncpod.Syncer
	workers    *podworkers.Workers
	watcher    *pleg.Watcher
	sources    *feeds
	table      *podTable
	states     *podStates
	sink       sink
	before     *seenBefore // the statuses that an earlier agent has stored
	house      *housekeeper
	reconciler *reconciler
	events     *eventQueue // nil if the embedder has no recorder
	runtime    gate
	ran        atomic.Bool
	// children are the goroutines that Run has started.
	children sync.WaitGroup
	// storeErr is why the stored statuses, or pod records, could not be read. The table's mu guards
	// it.
	storeErr error
}

// New returns a Loop that does nothing until Run is called. The error names the missing or invalid field of the Config.
func New(c Config) (*Loop, error) {
	events := queueEvents(&c)
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Loop{config: c, events: events, states: &podStates{pods: map[types.UID]*podState{}}, before: newSeenBefore()}
	l.table = &podTable{
		notices: notices{c.Log, c.Sync.Events}, states: l.states, cache: c.Cache,
		reconcile: make(flag, 1), housekeeping: make(flag, 1), pods: map[types.UID]*workerPod{},
	}
	l.sink = sink{podStates: l.states, seen: l.table.lastStatus, store: c.Store, next: c.Sync.Sink}
	l.sources = &feeds{log: c.Log, delivered: l.table.sourceDelivered, stopUnknown: c.StopUnknown}
	for _, s := range c.Sources {
		l.sources.all = append(l.sources.all, &feed{Source: s})
	}
	if err := l.assemble(); err != nil {
		return nil, err
	}
	return l, nil
}

// assemble creates the parts and connects them.
func (l *Loop) assemble() error {
	c := &l.config
	syncConfig := c.Sync
	syncConfig.Sink = nil // the Loop delivers the statuses
	syncConfig.Parts.Statuses, syncConfig.Parts.StatusKeeper = inspections{c.Reader, l}, l.sink
	syncConfig.Parts.Newest = l.table.find
	var err error
	if l.syncer, err = syncpod.New(syncConfig); err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	watchConfig := pleg.Config{
		Settings: c.Watch, Reader: reader{c.Reader, l.before}, Events: c.Client, Owner: c.Sync.Owner, Cache: c.Cache, Log: c.Log,
		Observed:         l.syncer.Observe, // a container may exit, and its record be lost, between two works
		Changed:          func(uid types.UID, _ *runtime.PodStatus) { l.table.requestSync(uid) },
		AvailableChanged: l.availableChanged, Unreadable: l.unreadable,
		Busy: func(uid types.UID) bool { state := l.states.get(uid); return state.busy(l.workers.State(uid).Phase) },
	}
	if l.watcher, err = pleg.New(watchConfig); err != nil {
		return fmt.Errorf("loop: Config.Watch: %w", err)
	}
	work, err := l.newWork()
	if err != nil {
		return fmt.Errorf("loop: %w", err)
	}
	workersConfig := c.Workers
	workersConfig.Syncer, workersConfig.Status, workersConfig.Tracker = work, work, work
	if l.workers, err = podworkers.New(workersConfig); err != nil {
		return fmt.Errorf("loop: Config.Workers: %w", err)
	}
	l.table.workers = l.workers
	l.house = &housekeeper{table: l.table, sources: l.sources, watcher: l.watcher}
	l.reconciler = &reconciler{
		table: l.table, sources: l.sources, watcher: l.watcher, house: l.house, changed: l.syncer.PodChanged,
		admission: c.Admission, cpusets: c.Sync.Extensions.CPUSets, allocations: c.Sync.Extensions.Allocations,
	}
	if allocations := c.Sync.Extensions.Allocations; allocations != nil {
		allocations.Notify(l.table.requestSync)
	}
	if devices := c.Sync.Extensions.Devices; devices != nil {
		devices.Notify(l.table.requestSync)
	}
	if cpusets := c.Sync.Extensions.CPUSets; cpusets != nil {
		cpusets.Notify(l.cpusChanged)
	}
	return nil
}

// cpusChanged requests a sync of each pod, because its containers may have to move, and has syncs in flight decide again.
func (l *Loop) cpusChanged() {
	l.table.mu.Lock()
	uids := l.table.uids()
	l.table.mu.Unlock()
	for _, uid := range uids {
		l.syncer.PodChanged(uid)
		l.table.requestSync(uid)
	}
}

// Run keeps the pods running until ctx ends. Then it detaches: it stops working and leaves the pods as they are, for the
// next agent to adopt. To stop them first, call Drain. Run returns when everything it has started has returned; requests
// to the runtime end with ctx, except that sandbox stops have up to Sync.Limits.CleanupTimeout to complete, and
// interrupted steps are undone. Records have one more second. Then queued events are recorded, as many as possible in
// 2 s; a call to Sync.Events that does not return is abandoned.
//
// Run can be called only once: sources run once, and the memory of unattended pods is outdated. A
// new Loop starts from the runtime and the Store.
func (l *Loop) Run(ctx context.Context) error {
	if l.ran.Swap(true) {
		return errors.New("loop: Run was called before: make a new Loop")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failures := make(chan error, 1)
	start := func(run func(context.Context) error) {
		l.children.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				select {
				case failures <- err:
				default:
				}
				cancel()
			}
		})
	}
	start(l.watcher.Run) // the runtime is listed while the stored statuses are read
	l.restore(ctx)
	if l.events != nil {
		defer l.events.flush()
	}
	start(l.workers.Run)
	for i := range l.config.Parts {
		start(func(ctx context.Context) error { return l.runPart(ctx, i) })
	}
	for _, f := range l.sources.all {
		l.children.Go(func() { l.sources.run(ctx, f) })
	}
	l.children.Go(func() { l.reconciler.run(ctx) })
	l.house.run(ctx) // until ctx ends
	l.windUp()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// pendingStops are the stops of sandboxes that outlive their callers' contexts.
type pendingStops interface {
	CancelPending()
	Wait()
}

// windUp returns when all goroutines of Run have returned, after its context has ended. When its time has
// passed, it cancels the work in the runtime.
func (l *Loop) windUp() {
	stops, pending := l.config.Sync.Parts.Sandboxes.(pendingStops)
	if pending {
		overdue := time.AfterFunc(l.config.Sync.Limits.CleanupTimeout, stops.CancelPending)
		defer overdue.Stop()
	}
	l.children.Wait()
	if pending {
		stops.Wait()
	}
}

func (l *Loop) runPart(ctx context.Context, i int) error {
	if err := l.config.Parts[i].Run(ctx, host{l}); err != nil {
		return fmt.Errorf("loop: Config.Parts[%d]: %w", i, err)
	}
	return nil
}
