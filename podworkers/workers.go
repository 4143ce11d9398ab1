package podworkers

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Workers bring pods to the state that their definitions ask for: they hold a Set, call a
// Syncer with the work that the Set hands out, and retry work that failed. Make them with
// New; all methods may be called from any goroutine, at any time.
//
// Workers own the lock and the goroutines. The scheduler, which the lock guards, decides which work
// starts, and when. A change collects log lines and calls of the Observer under the lock; they are
// reported after its release. A job calls the Syncer without the lock.
type Workers struct {
	config Config
	// running counts the goroutines that Run waits for.
	running sync.WaitGroup

	// mu guards everything below. It is never held during a call of the Syncer,
	// the StatusSource, the Observer or the Logger.
	mu        sync.Mutex
	scheduler scheduler
	// hungry: a goroutine is about to take work. There is one whenever pods are ready, so that no
	// pod waits for the work of another.
	hungry bool
}

// New returns Workers that do nothing until Run is called. They accept updates
// from now on. An error names the invalid field of the Config.
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
// has returned, abandoned work included. That takes as long as the Syncer needs after
// its cancellation. To stop the pods first, call Drain before ending ctx. Work
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
		case <-w.scheduler.timers.earlier:
		case <-timer.C:
		}
		w.fire(timer)
	}
}

// begin starts the work that came up before Run was called.
func (w *Workers) begin(ctx context.Context) error {
	var then change
	w.mu.Lock()
	defer w.unlock(&then)
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

// fire does the work that is due.
func (w *Workers) fire(timer *time.Timer) {
	then := change{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	w.scheduler.fire(&then)
	w.scheduler.timers.arm(timer, then.now)
}

// UpdatePod records an update of a pod and returns. The workers sync the pod as soon as no work of it is
// in flight. Of several updates that arrive meanwhile the last counts; stop requests are never
// lost. The caller must not change the objects of the update any more.
//
// Update.Stop.ID is ignored; KillPod waits for the answer. An error means that the update was
// refused: ErrStopped, ErrDraining, or the name of the missing field.
func (w *Workers) UpdatePod(u Update) error {
	_, err := w.update(u, nil)
	return err
}

func (w *Workers) update(u Update, answer chan<- error) (StopID, error) {
	then := change{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	return w.scheduler.update(u, answer, &then)
}

// unlock releases the lock, reports what changed while it was held, and starts a
// goroutine if there is work that no other is about to take.
func (w *Workers) unlock(then *change) {
	spawn := !w.hungry && w.scheduler.mayStart()
	if spawn {
		w.hungry = true
		w.running.Add(1)
	}
	w.mu.Unlock()
	then.report(&w.config)
	if spawn {
		go w.work()
	}
}

// work does the work of pods that are ready, and returns when there is none.
func (w *Workers) work() {
	defer w.running.Done()
	for j := w.first(); j != nil; {
		j = w.finish(j, j.do(&w.config))
	}
}

// first returns the first job of a goroutine, nil if another goroutine has taken it.
func (w *Workers) first() *job {
	then := change{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	w.hungry = false
	return w.scheduler.next(&then)
}

// finish ends a job and returns the next one, of any pod, nil if there is none.
func (w *Workers) finish(j *job, end ended) *job {
	then := change{now: time.Now()}
	w.config.Observer.SyncEnded(j.Work, then.now.Sub(j.started), end.err)
	j.cancel(nil)
	w.mu.Lock()
	defer w.unlock(&then)
	w.scheduler.finish(j, end, &then)
	return w.scheduler.next(&then)
}
