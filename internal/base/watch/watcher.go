package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
)

// A Watcher watches the pods of a runtime. Its methods may be called
// concurrently, Changed and the other functions of its Config included.
type Watcher struct {
	config Config
	cache  *runtime.Cache
	slots  slots
	// kick makes the goroutine that lists think again about when to.
	kick chan struct{}

	mu      sync.Mutex
	running bool // until all goroutines of a Run have ended
	tasks   sync.WaitGroup
	ctx     context.Context // Run's context, for the goroutines of pods
	gate    gate
	away    *UnavailableError // while the gate is away
	since   time.Time         // when the gate was opened or went away
	// announced means that AvailableChanged has reported the runtime as available.
	announced bool
	pods      map[types.UID]*pod
	owners    owners
	lists     lists
	stream    *stream // nil while the gate is not open, or without events
}

// gate says whether pods may be looked at.
type gate uint8

const (
	gateStarting gate = iota // nothing was listed yet: who asks has to wait
	gateOpen
	gateAway    // requests fail
	gateStopped // Run has ended
)

// New returns a Watcher that does nothing until Run is called.
func New(c Config) (*Watcher, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Watcher{
		config: c, cache: c.Cache,
		slots: make(slots, parallel),
		kick:  make(chan struct{}, 1),
		pods:  map[types.UID]*pod{},
	}, nil
}

// Run watches until ctx ends, and returns its error after the last goroutine has
// ended; that may take until a runtime that hangs lets go of its calls. It may be
// called again then.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := w.start(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		w.list(ctx)
		w.rest(ctx)
	}
	if w.shut(gateStopped, pleg.ErrStopped) {
		w.config.Observer.Streaming(false)
	}
	w.tasks.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.lists.reading = false, false // the end of Run may have cut off a list
	return ctx.Err()
}

func (w *Watcher) start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return errors.New("watch: Run is called while it runs")
	}
	w.running, w.ctx = true, ctx
	w.gate, w.away, w.announced, w.since = gateStarting, nil, false, time.Now()
	w.lists = lists{interval: minRelist}
	return nil
}

// shut stops all looks but those in flight, and turns away who waits for one
// that has not begun. These pods remain to be looked at. It reports whether events
// were relied on until now.
func (w *Watcher) shut(g gate, err error) (streamed bool) {
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
			p.next = &look{asked: p.next.asked, done: make(chan struct{}), told: make(chan struct{})}
		}
	}
	return streamed
}

// reopen lets inspections start, first those requested in the meantime. It requires mu to be held.
func (w *Watcher) reopen() {
	w.gate, w.away, w.since = gateOpen, nil, time.Now()
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

// Available reports since when the runtime has been there, with a nil error, or
// away. Before the first answer the error is pleg.ErrNotListed.
func (w *Watcher) Available() (since time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.unavailable()
}

// unavailable must be called with mu held.
func (w *Watcher) unavailable() error {
	switch {
	case w.gate == gateStopped:
		return pleg.ErrStopped
	case w.away != nil:
		return w.away
	case !w.announced:
		return pleg.ErrNotListed
	}
	return nil
}

// A Pod is a pod that the runtime has.
type Pod struct {
	UID             types.UID
	Name, Namespace string
	// Source is the agent's source that the pod came from, as recorded with its
	// sandbox; see podreader.ListedPod.Source.
	Source string
	// Running: there is something to stop, a container that runs or may run or a
	// sandbox that is ready.
	Running bool
	// ObservedAt is when the read began that this is from.
	ObservedAt time.Time
}

// Pods returns the pods that the runtime has, sorted by UID: those of the last list of all pods,
// updated by later inspections. It does not contain pods created since. It is empty until Available
// returns nil.
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

// nudge makes the goroutine that lists think again.
func (w *Watcher) nudge() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}
