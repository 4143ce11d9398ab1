package podworkers

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Workers bring pods to where they should be: they hold a Set, do the work it
// hands out by calling a Syncer, and bring work that failed back. Make one with
// New; all methods may be called from any goroutine, at any time.
type Workers struct {
	config Config
	// running are the goroutines that Run waits for.
	running sync.WaitGroup

	// mu guards everything below. It is never held across a call to the Syncer,
	// the StatusSource, the Observer or the Logger.
	mu     sync.Mutex
	stage  stage
	set    Set
	pods   map[types.UID]*worker // those the Set knows
	timers timers
	// base is the context of all work: Run's, without its end.
	base  context.Context
	ready ready
	// spare is a job that has returned and can be used again.
	spare *job
	// syncing counts the SyncPod calls in flight.
	syncing int
	// hungry: a goroutine is on its way to take work. While pods are ready there is
	// always one, so that no pod waits for the work of another.
	hungry bool
	// asked are those who wait for a pod to stop.
	asked  map[StopID]chan<- error
	lastID StopID
	drain  *drain
}

// stage is where Workers stand in their own life.
type stage uint8

const (
	notRun stage = iota
	running
	stopping
)

// New returns Workers that do nothing until Run is called. They take updates
// from now on. The error names the field of the Config that cannot be.
func New(c Config) (*Workers, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Workers{
		config: c,
		pods:   map[types.UID]*worker{},
		timers: timers{earlier: make(chan struct{}, 1)},
		asked:  map[StopID]chan<- error{},
	}, nil
}

// Run does the work of the pods until ctx is done. Then it detaches: it cancels
// the work in flight, leaves the pods as they are, and returns nil when all work
// has returned, abandoned work included. That takes as long as the Syncer takes to
// heed its cancellation. To stop the pods first, call Drain before ending ctx. Work
// gets the values of ctx, but not its deadline. Run can be called once.
func (w *Workers) Run(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			w.detach()
			return nil
		case <-w.timers.earlier:
		case <-timer.C:
		}
		w.fire(timer)
	}
}

// begin lets the work start that came up before Run was called.
func (w *Workers) begin(ctx context.Context) error {
	var then followUp
	w.mu.Lock()
	defer w.unlock(&then)
	if w.stage != notRun {
		return errors.New("podworkers: Run was called before; make new Workers to run again")
	}
	w.stage = running
	w.base = context.WithoutCancel(ctx)
	return nil
}

// detach ends all work, and leaves the pods as they are.
func (w *Workers) detach() {
	w.mu.Lock()
	w.stage = stopping
	for _, p := range w.pods {
		if p.job != nil {
			p.job.interrupted = true
			p.job.cancel(ErrStopped)
		}
	}
	w.mu.Unlock()
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.asked {
		w.answer(id, ErrStopped)
	}
	w.drain.end(ErrStopped)
}

// fire does what is due by now.
func (w *Workers) fire(timer *time.Timer) {
	then := followUp{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	for p := w.timers.next(then.now); p != nil; p = w.timers.next(then.now) {
		if p.job != nil {
			w.abandon(p, &then)
		} else {
			w.follow(p.uid, w.set.Requeue(p.uid), &then)
		}
	}
	w.timers.arm(timer, then.now)
}

// UpdatePod takes news of a pod, and has it worked on as soon as the pod's work
// in flight allows it. It does not wait for that. Of several updates that arrive
// meanwhile the last counts; a request to stop is never lost. What the update
// points to is lent: it must not change from now on.
//
// Update.Stop.ID is ignored; KillPod waits for the answer. The error tells that
// the update cannot be used, and was not: ErrStopped, ErrDraining, or what is
// missing in it.
func (w *Workers) UpdatePod(u Update) error {
	_, err := w.take(u, nil)
	return err
}

// take gives an update to the Set. If answer is not nil, it gets one answer when
// the pod has stopped, under the ID that is returned.
func (w *Workers) take(u Update, answer chan<- error) (StopID, error) {
	then := followUp{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	uid, err := w.acceptable(u)
	if err != nil {
		return 0, err
	}
	var id StopID
	if u.Stop != nil || answer != nil {
		u.Stop = w.request(u.Stop, answer)
		id = u.Stop.ID
	}
	e, err := w.set.Update(then.now, u)
	if err != nil {
		return 0, err
	}
	w.follow(uid, e, &then)
	return id, nil
}

// acceptable returns the UID of the pod of an update, or why it is refused.
func (w *Workers) acceptable(u Update) (types.UID, error) {
	if w.stage == stopping {
		return "", ErrStopped
	}
	uid, err := u.uid()
	if err != nil {
		return "", err
	}
	if w.drain != nil && u.Type != Kill && w.pods[uid] == nil {
		return "", ErrDraining
	}
	return uid, nil
}

// follow does what a change of the Set asks for.
func (w *Workers) follow(uid types.UID, e Effects, then *followUp) {
	w.followUp(w.pods[uid], uid, e, then)
}

func (w *Workers) followUp(p *worker, uid types.UID, e Effects, then *followUp) {
	for _, id := range e.Stopped {
		w.answer(id, nil)
	}
	p = w.track(p, uid, then)
	if p != nil && e.Interrupt {
		w.interrupt(p, then.now)
	}
	if p != nil && e.Work {
		w.ready.add(p)
	}
	for _, successor := range e.Successors {
		w.ready.add(w.pods[successor])
	}
}

// track brings a pod's worker in line with the Set, and makes one for a pod that
// is new. It returns nil if the Set does not know the pod.
func (w *Workers) track(p *worker, uid types.UID, then *followUp) *worker {
	if p == nil || p.state.phase == Forgotten {
		if p = w.rebind(p, uid, then); p == nil {
			return nil
		}
	}
	then.moved = p.moveOn(then.moved)
	if p.state.over() {
		w.drain.finished(uid)
	}
	return p
}

// moveOn adds the steps of a pod to its phase in the Set. That it has finished is always one
// of them.
func (p *worker) moveOn(moves []moved) []moved {
	to := p.state.phase
	if p.phase < Finished && to > Finished {
		moves = append(moves, moved{p.uid, p.phase, Finished})
		p.phase = Finished
	}
	if p.phase != to {
		moves = append(moves, moved{p.uid, p.phase, to})
		p.phase = to
	}
	return moves
}

// rebind forgets a pod's worker and makes another one if the Set knows a pod of the
// UID.
func (w *Workers) rebind(old *worker, uid types.UID, then *followUp) *worker {
	p := &worker{uid: uid, state: w.set.pods[uid]}
	if old != nil {
		p.syncedAt = old.syncedAt
		w.forget(old, then)
	}
	if p.state == nil {
		return nil
	}
	w.pods[uid] = p
	then.seen = append(then.seen, uid)
	return p
}

// forget takes away what is held of a pod that the Set has forgotten.
func (w *Workers) forget(p *worker, then *followUp) {
	then.forgotten = p.moveOn(then.forgotten)
	w.timers.remove(p)
	p.queued = nowhere
	delete(w.pods, p.uid)
	w.drain.finished(p.uid)
}
