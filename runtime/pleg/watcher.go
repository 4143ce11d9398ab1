package pleg

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// A Watcher watches a runtime's pods. Its methods may be called concurrently, also from Changed and the other
// functions in its Config.
type Watcher struct {
	config Config
	cache  *runtime.Cache
	slots  slots
	// wakeup makes the listing goroutine compute the next list's time again.
	wakeup chan struct{}

	mu             sync.Mutex
	running        bool // until all Run goroutines have ended
	tasks          sync.WaitGroup
	ctx            context.Context // Run's context, for pod goroutines
	gate           gate
	unavailableErr *UnavailableError // set while the gate is gateUnavailable
	since          time.Time         // the time of the last change to the gate
	// announced means that AvailableChanged has reported the runtime as available.
	announced bool
	pods      map[types.UID]*pod
	owners    owners
	lists     lists
	stream    *stream // nil while the gate is not open, or without events
}

// gate determines whether inspections may start.
type gate uint8

const (
	gateStarting gate = iota // no list has succeeded yet: requests wait
	gateOpen
	gateUnavailable // requests fail
	gateStopped     // Run has ended
)

// New returns a Watcher that does nothing until Run is called.
func New(c Config) (*Watcher, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Watcher{
		config: c, cache: c.Cache,
		slots:  make(slots, maxInspections),
		wakeup: make(chan struct{}, 1),
		pods:   map[types.UID]*pod{},
	}, nil
}

// Run watches until ctx ends. It returns ctx's error after its last goroutine has ended, which takes until all calls to
// the runtime have returned. After that it may be called again.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := w.start(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		w.list(ctx)
		w.awaitNextList(ctx)
	}
	if w.close(gateStopped, ErrStopped) {
		w.config.Observer.Streaming(false)
	}
	w.tasks.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.lists.reading = false, false // Run's end may have interrupted a list
	return ctx.Err()
}

func (w *Watcher) start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return errors.New("pleg: Run is called while it runs")
	}
	w.running, w.ctx = true, ctx
	w.gate, w.unavailableErr, w.announced, w.since = gateStarting, nil, false, time.Now()
	w.lists = lists{interval: minRelist}
	return nil
}

// close prevents new inspections, and fails the callers that wait for one
// that has not begun. These inspections stay requested. It reports whether the Watcher relied on
// events until now.
func (w *Watcher) close(g gate, err error) (streamed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate, streamed = g, w.streaming()
	if w.stream != nil {
		w.stream.cancel()
		w.stream = nil
	}
	for _, p := range w.pods {
		if p.next != nil {
			p.next.end(nil, err)
			p.next = &inspection{requested: p.next.requested, done: make(chan struct{}), reported: make(chan struct{})}
		}
	}
	return streamed
}

// reopen lets inspections start, first those requested in the meantime. It requires mu to be held.
func (w *Watcher) reopen() {
	w.gate, w.unavailableErr, w.since = gateOpen, nil, time.Now()
	for _, p := range w.pods {
		if p.err != nil {
			p.retryAt = w.since
		}
		if p.due() {
			w.wake(p)
		}
	}
	w.startStream()
}

// Available returns since when the runtime has been available, or unavailable if the error is not
// nil. Before the first list the error is ErrNotListed.
func (w *Watcher) Available() (since time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.unavailable()
}

// unavailable returns why the runtime is unavailable, nil if it is available. It requires mu to be held.
func (w *Watcher) unavailable() error {
	switch {
	case w.gate == gateStopped:
		return ErrStopped
	case w.unavailableErr != nil:
		return w.unavailableErr
	case !w.announced:
		return ErrNotListed
	}
	return nil
}

// A Pod is a pod that the runtime has.
type Pod struct {
	UID             types.UID
	Name, Namespace string
	// Source is the agent's source that the pod came from, as recorded in its sandbox; see
	// reader.ListedPod.Source.
	Source string
	// Running means that the pod has a ready sandbox, or a container that runs or may run.
	Running bool
	// ObservedAt is the time when the read for this information began.
	ObservedAt time.Time
}

// Pods returns the pods that the runtime has, sorted by UID: those in the last full list, updated by later
// inspections. It does not contain pods that were created after that list. It is empty until Available returns nil.
func (w *Watcher) Pods() []Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Pod
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if listed := w.pods[uid].listed; listed != nil {
			all = append(all, *listed)
		}
	}
	return all
}

// wakeLister makes the listing goroutine compute the next list's time again.
func (w *Watcher) wakeLister() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}
