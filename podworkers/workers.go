package podworkers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Workers bring pods to the state that their definitions require: they hold a Set, call a
// Syncer for the work that the Set hands out, and retry failed work. Create them with
// New. All methods may be called from any goroutine, at any time.
//
// Workers own the lock and the goroutines. The scheduler, which the lock guards, decides which work
// starts, and when. Under the lock, log lines and calls to the Observer are collected in changes, which
// are reported after the lock is released. A job calls the Syncer without the lock.
type Workers struct {
	config Config
	// desired looks again when a pod has finished, nil if there is none.
	desired atomic.Pointer[Desired]
	// running counts the goroutines that Run waits for.
	running sync.WaitGroup

	// mu guards everything below. It is never held during a call to the Syncer,
	// the StatusSource, the Observer or the Logger.
	mu        sync.Mutex
	scheduler scheduler
	// goroutineStarting means that a goroutine is about to take work. There is always one while pods are ready,
	// so that no pod waits for the work of another one.
	goroutineStarting bool
}

// New returns Workers that accept updates, and call the Syncer only during Run. An error names the
// invalid field of the Config.
func New(c Config) (*Workers, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Workers{config: c}
	w.scheduler = newScheduler(&w.config)
	return w, nil
}

// Run does the work of the pods until ctx is done. Then it detaches: it cancels
// the work in flight, leaves the pods as they are, and returns nil when all work
// has returned, abandoned work included. To stop the pods first, call Drain before ending ctx. The contexts of
// work have the values of ctx, but not its deadline. Run can be called only once.
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
		case <-w.scheduler.timers.earlier:
		case <-timer.C:
		}
		w.fire(timer)
	}
}

// begin starts the work that became due before Run was called.
func (w *Workers) begin(ctx context.Context) error {
	var changes changes
	w.mu.Lock()
	defer w.unlock(&changes)
	if w.scheduler.stage != notRun {
		return errors.New("podworkers: Run was called before; make new Workers to run again")
	}
	w.scheduler.stage = running
	w.scheduler.base = context.WithoutCancel(ctx)
	return nil
}

// detach cancels all work, waits until it has returned, and leaves the pods as they are.
func (w *Workers) detach() {
	w.mu.Lock()
	w.scheduler.cancelAll()
	w.mu.Unlock()
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scheduler.requests.answerAll(ErrStopped)
	w.scheduler.drain.end(ErrStopped)
}

// fire starts the work that is due.
func (w *Workers) fire(timer *time.Timer) {
	changes := changes{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&changes)
	w.scheduler.fire(&changes)
	w.scheduler.timers.arm(timer, changes.now)
}

// UpdatePod records an update to a pod and returns. The workers sync the pod as soon as no call for it is
// in flight. Only the last update that arrives meanwhile is used; stop requests are never lost. The
// caller must not modify the objects of the update afterwards.
//
// Update.Stop.ID is ignored; KillPod waits for the answer. An error means that the update is rejected:
// ErrStopped, ErrDraining, or the missing field's name.
func (w *Workers) UpdatePod(u Update) error {
	_, err := w.update(u, nil)
	return err
}

func (w *Workers) update(u Update, answer chan<- error) (StopID, error) {
	changes := changes{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&changes)
	return w.scheduler.update(u, answer, &changes)
}

// unlock releases the lock and reports the changes. If work is ready and no goroutine is about to take it, unlock
// starts one.
func (w *Workers) unlock(changes *changes) {
	spawn := !w.goroutineStarting && w.scheduler.mayStart()
	if spawn {
		w.goroutineStarting = true
		w.running.Add(1)
	}
	w.mu.Unlock()
	changes.report(&w.config)
	if d := w.desired.Load(); d != nil && changes.anyFinished() {
		d.Look()
	}
	if spawn {
		go w.work()
	}
}

// work does the work of ready pods, and returns when no pod is ready.
func (w *Workers) work() {
	defer w.running.Done()
	for j := w.firstJob(); j != nil; {
		j = w.endJob(j, j.do(&w.config))
	}
}

// firstJob returns a goroutine's first job, nil if another goroutine has taken the work.
func (w *Workers) firstJob() *job {
	changes := changes{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&changes)
	w.goroutineStarting = false
	return w.scheduler.nextJob(&changes)
}

// endJob ends a job and returns the next one, of any pod. It returns nil if there is none.
func (w *Workers) endJob(j *job, end ended) *job {
	changes := changes{now: time.Now()}
	w.config.Tracker.WorkEnded(j.Work, end.err)
	w.config.Observer.SyncEnded(j.Work, changes.now.Sub(j.started), end.err)
	j.cancel(nil)
	w.mu.Lock()
	defer w.unlock(&changes)
	w.scheduler.endJob(j, end, &changes)
	return w.scheduler.nextJob(&changes)
}
