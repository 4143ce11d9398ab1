package logs

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// lookInterval is the polling interval if the system has no watcher left.
const lookInterval = time.Second

// watches reports changes in directories. The system limits the watchers, so all followers share one
// watcher, which exists as long as there is a follower.
type watches struct {
	// changing is held by join and leave. The goroutine that receives from the watcher must not lock it,
	// because on some systems the watcher's methods wait for that goroutine.
	changing sync.Mutex
	watcher  *fsnotify.Watcher
	stopped  chan struct{}

	mu   sync.Mutex
	dirs map[string]map[chan struct{}]bool
}

// join returns a channel that reports changes in the directory until the caller calls leave. One
// message may report several changes.
func (w *watches) join(dir string) (changed <-chan struct{}, leave func()) {
	w.changing.Lock()
	defer w.changing.Unlock()
	if w.watcher == nil {
		w.start()
	}
	if w.watcher == nil || w.watcher.Add(dir) != nil {
		w.stopIfUnused()
		return look()
	}
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dirs[dir] == nil {
		w.dirs[dir] = map[chan struct{}]bool{}
	}
	w.dirs[dir][c] = true
	return c, func() { w.leave(dir, c) }
}

// look replaces join if the system has no watcher left: it polls.
func look() (changed <-chan struct{}, leave func()) {
	c, done := make(chan struct{}, 1), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(lookInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				notify(c)
			}
		}
	})
	return c, func() {
		close(done)
		running.Wait()
	}
}

func (w *watches) leave(dir string, c chan struct{}) {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	delete(w.dirs[dir], c)
	empty := len(w.dirs[dir]) == 0
	if empty {
		delete(w.dirs, dir)
	}
	w.mu.Unlock()
	if empty {
		_ = w.watcher.Remove(dir) // the directory may no longer exist
	}
	w.stopIfUnused()
}

// start creates a watcher if the system has one left. The caller holds changing.
func (w *watches) start() {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	w.watcher, w.stopped, w.dirs = watcher, make(chan struct{}), map[string]map[chan struct{}]bool{}
	go w.forward(watcher, w.stopped)
}

// stopIfUnused closes the watcher when no follower is left. The caller holds changing.
func (w *watches) stopIfUnused() {
	w.mu.Lock()
	used := len(w.dirs) > 0
	w.mu.Unlock()
	if used || w.watcher == nil {
		return
	}
	_ = w.watcher.Close() // the watcher only reads
	<-w.stopped
	w.watcher = nil
}

// forward passes on the watcher's events until the watcher is closed.
func (w *watches) forward(watcher *fsnotify.Watcher, stopped chan<- struct{}) {
	defer close(stopped)
	for {
		select {
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			w.notify(filepath.Dir(event.Name))
			w.notify(event.Name) // the directory itself
		case _, ok := <-watcher.Errors: // events may have been lost
			if !ok {
				return
			}
			w.notifyAll()
		}
	}
}

func (w *watches) notify(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.dirs[dir] {
		notify(c)
	}
}

func (w *watches) notifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dir := range w.dirs {
		for c := range dir {
			notify(c)
		}
	}
}

// notify sends on the channel unless a message is pending.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
