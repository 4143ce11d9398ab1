package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/logs/rotate"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/apistatus"
	"github.com/podsync/podsync/syncpod/pressure"
)

// A Loop keeps the pods running that its sources want. Make one with New; its
// methods may be called concurrently.
type Loop struct {
	config  Config
	syncer  syncer
	workers *podworkers.Workers
	watcher *pleg.Watcher
	sink    sink
	events  *eventQueue     // nil if the embedder has no recorder
	rotator *rotate.Rotator // nil if logs are not rotated
	// pressure is nil without an EvictionPolicy.
	pressure *pressure.Manager
	states   *podStates
	before   *seenBefore // by an earlier agent
	runtime  gate
	ran      atomic.Bool
	// children are what Run has started.
	children sync.WaitGroup
	// listed: the runtime has said once what it has.
	listed atomic.Bool
	// news is raised when a source has delivered, housekeeping when there may be something to
	// stop or to remove.
	news, housekeeping flag

	// collecting is held while a Collector is called.
	collecting sync.Mutex

	// removals are slots for removing pods from the runtime, and deletions those for deleting
	// records of pods.
	removals, deletions chan struct{}

	feedsMu sync.Mutex
	feeds   []*feed

	// mu is held while the workers are told of pods. It is taken before any lock of
	// theirs or of the states, and the watcher is not called under it.
	mu         sync.Mutex
	workerPods map[types.UID]*workerPod
	beside     admittedPods
	// shuttingDown: new pods are not started any more.
	shuttingDown bool
	// versionsWait: a pod waits for another version of it, which nobody looks after, to end.
	versionsWait bool
	// storeErr is why the store, or the records of pods, could not be read.
	storeErr error
}

// New returns a Loop that does nothing until Run is called. The error names the
// field of the Config that is missing or wrong.
func New(c Config) (*Loop, error) {
	events := queueEvents(&c)
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Loop{
		config: c, events: events,
		states: &podStates{pods: map[types.UID]*podState{}},
		news:   make(flag, 1), housekeeping: make(flag, 1), removals: make(chan struct{}, parallelRemovals),
		deletions:  make(chan struct{}, parallelRemovals),
		workerPods: map[types.UID]*workerPod{},
		before:     newSeenBefore(),
	}
	l.sink = sink{podStates: l.states, seen: l.lastStatus, store: c.Store, next: c.Sync.Sink}
	for _, s := range c.Sources {
		l.feeds = append(l.feeds, &feed{Source: s})
	}
	if err := l.assemble(); err != nil {
		return nil, err
	}
	return l, nil
}

// assemble makes the parts and connects them.
func (l *Loop) assemble() error {
	c := &l.config
	syncConfig := c.Sync
	syncConfig.Sink = l.sink
	if direct, ok := c.Watch.Reader.(syncpod.StatusReader); ok && syncConfig.Deps.Statuses == nil {
		syncConfig.Deps.Statuses = looks{direct, l}
	}
	syncer, err := syncpod.New(syncConfig)
	if err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	l.syncer = syncer
	watchConfig := c.Watch
	watchConfig.Reader, watchConfig.Observer = reader{c.Watch.Reader, l.before}, lookObserver{c.Watch.Observer, l}
	watchConfig.Observed = syncer.Observe // a container may exit, and its record be lost, between two works
	watchConfig.Changed = func(uid types.UID, _ *runtime.PodStatus) { l.lookAgain(uid) }
	watchConfig.AvailableChanged = l.availableChanged
	watchConfig.Busy = func(uid types.UID) bool { state := l.states.get(uid); return state.busy() }
	if l.watcher, err = pleg.New(watchConfig); err != nil {
		return fmt.Errorf("loop: Config.Watch: %w", err)
	}
	if l.rotator, err = c.makeRotator(); err != nil {
		return err
	}
	workersConfig := c.Workers
	workersConfig.Syncer, workersConfig.Status, workersConfig.Observer = work{l}, workStatuses{l}, observer{l}
	if l.workers, err = podworkers.New(workersConfig); err != nil {
		return fmt.Errorf("loop: Config.Workers: %w", err)
	}
	for _, part := range []any{c.Sync.Extensions.Allocations, c.Sync.Extensions.Devices, c.Sync.Extensions.Lifecycle} {
		if n, ok := part.(notifier); ok {
			n.Notify(l.lookAgain)
		}
	}
	return l.makeEvictor()
}

// notifier tells of pods that there is work on for a reason of its own.
type notifier interface{ Notify(changed func(types.UID)) }

// Run keeps the pods running until ctx ends. Then it detaches: it stops working and
// leaves the pods as they are, for the next agent to adopt. To stop them first, call
// Drain. It returns when all that it has started has returned; what the runtime is
// asked for ends with ctx, but for at most Sync.Limits.CleanupTimeout in which stops of
// sandboxes come to their end, if Sync.Deps.Sandboxes is a *sandbox.Runner as it is by default,
// and what was left half done is undone. Records have their second beyond that. Then events that still wait for Sync.Events are recorded, as many
// as that takes in 2 s; a call of it that does not return is left behind.
//
// Run can be called once: sources run once, and memory of pods that nobody looks
// after is of no use. A new Loop begins with what the runtime and the Store know.
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
	start(l.watcher.Run) // what runs is listed while what was remembered is read
	l.restore(ctx)
	if l.events != nil {
		go l.events.send()
		defer l.events.flush()
	}
	start(l.workers.Run)
	start(l.runProbes)
	for _, f := range l.feeds {
		l.children.Go(func() { l.runFeed(ctx, f) })
	}
	l.children.Go(func() { l.follow(ctx) })
	l.children.Go(func() { l.keepHouse(ctx) })
	for _, c := range l.config.Collectors {
		l.children.Go(func() { l.collect(ctx, c) })
	}
	if l.config.ImageCollector != nil {
		l.children.Go(func() { l.collectImages(ctx) })
	}
	if l.config.OOM != nil {
		l.children.Go(func() { l.watchOOM(ctx) })
	}
	if l.pressure != nil {
		l.children.Go(func() { l.relieve(ctx) })
	}
	if l.rotator != nil {
		l.children.Go(func() { l.rotateLogs(ctx) })
	}
	<-ctx.Done()
	l.windUp()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// windUp returns when all that Run has started has returned, after its context has ended.
// What goes on in the runtime all the same is cut when its time is over.
func (l *Loop) windUp() {
	sandboxes, _ := l.config.Sync.Deps.Sandboxes.(interface {
		Wait()
		CancelPending()
	})
	if sandboxes == nil {
		l.children.Wait()
		return
	}
	overdue := time.AfterFunc(l.config.Sync.Limits.CleanupTimeout, sandboxes.CancelPending)
	defer overdue.Stop()
	l.children.Wait()
	sandboxes.Wait()
}

func (l *Loop) runProbes(ctx context.Context) error {
	if err := l.config.Probes.Run(ctx, l.lookAgain); err != nil {
		return fmt.Errorf("loop: Config.Probes: %w", err)
	}
	return nil
}

// Drain stops all pods, each within its own grace period, and returns when nothing of
// them runs and all are cleaned up after, or when ctx ends; new pods are not taken on
// from now on. The last status of each pod is then that of the stopped pod; the phase of a
// static pod, which the next agent starts again, stays what it was. Run has to be running, and
// is to be ended afterwards. That pods were
// drained is not remembered: the next agent starts them again, but for those that are
// over by their restart policy.
//
// If the Store cannot delete what it remembers of them, nothing is stopped, and Drain
// returns its errors. If ctx ends first the pods stop all the same: the error wraps the
// cause, and says how many are left and why. It is podworkers.ErrStopped if Run has ended.
func (l *Loop) Drain(ctx context.Context) error {
	if err := l.forgetDrained(ctx); err != nil {
		return err
	}
	return l.workers.Drain(ctx, podworkers.StopRequest{})
}

func (l *Loop) forgetDrained(ctx context.Context) error {
	l.mu.Lock()
	uids := l.uids()
	l.mu.Unlock()
	var errs []error
	for _, uid := range uids {
		if state := l.states.get(uid); state.over() || l.workers.State(uid).TerminationRequested {
			continue
		}
		l.states.update(uid, func(s *podState) { s.drained = true })
		errs = append(errs, l.config.Store.Delete(ctx, uid))
	}
	return errors.Join(errs...)
}

// KillPod stops a pod that its source still wants, for the reason in the request, and
// waits until nothing of it runs; see podworkers.Workers.KillPod. A uid that is not known
// is an error. If only the report of a pod that never ran fails, the error says so, and
// another call tries again.
//
// This agent does not start the pod again under its UID. Nor does the next one, if there is
// a Store, but for a static pod that was stopped without a Report and is not over by its
// restart policy.
func (l *Loop) KillPod(ctx context.Context, uid types.UID, stop podworkers.StopRequest) error {
	pod := l.knownPod(uid)
	if pod == nil {
		return fmt.Errorf("loop: pod %s is not known", uid)
	}
	worked := l.states.worked(uid)
	if err := l.workers.KillPod(ctx, podworkers.Update{Pod: pod, Stop: &stop}); err != nil {
		return err
	}
	return l.tellUnstarted(ctx, pod, stop.Report, worked)
}

// tellUnstarted reports a pod that was stopped before there was any work on it: nobody
// else does. By then it may be forgotten, and another may have its UID.
func (l *Loop) tellUnstarted(ctx context.Context, pod *v1.Pod, why *podworkers.StopReport, worked *atomic.Bool) error {
	if known := l.states.get(pod.UID); why != nil && !worked.Load() && !known.over() {
		status := pod.Status.DeepCopy()
		status.Phase, status.Reason, status.Message = v1.PodFailed, why.Reason, why.Message
		if why.Disruption {
			disruption := apistatus.DisruptionTarget(why.Message)
			disruption.LastTransitionTime = metav1.Now()
			status.Conditions = append(status.Conditions, disruption)
		}
		l.states.update(pod.UID, func(s *podState) { s.status, s.undelivered = status, true })
	}
	if err := l.sink.repeat(ctx, pod); err != nil {
		return fmt.Errorf("loop: pod %s is stopped, and its status not told: %w", fullName(pod), err)
	}
	return nil
}

// knownPod returns the pod that the workers have, nil if they were not told of any.
func (l *Loop) knownPod(uid types.UID) *v1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wp := l.workerPods[uid]; wp != nil {
		return wp.pod
	}
	return nil
}

// uids returns the pods that the workers know, in order. It must be called with mu
// held.
func (l *Loop) uids() []types.UID { return slices.Sorted(maps.Keys(l.workerPods)) }
