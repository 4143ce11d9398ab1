package critest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/internal/inject"
	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// Call is one CRI call that the runtime received: see [journal.Call].
type Call = journal.Call

// Journal is a list of calls in order of arrival: see [journal.Journal].
type Journal = journal.Journal

type recorder struct {
	mu       sync.Mutex
	limit    int // the maximum number of calls, 0 for no limit
	begun    int
	calls    []*Call
	done     int
	watchers []*watcher
}

// enter numbers a call and stores it. It must be called with mu held.
func (j *recorder) enter(c *Call) {
	j.begun++
	c.N = j.begun
	j.calls = append(j.calls, c)
	if j.limit > 0 && len(j.calls) > j.limit {
		j.calls = slices.Delete(j.calls, 0, len(j.calls)-j.limit)
	}
}

type watcher struct{ f func(done int, c Call) }

// An entry is a running call: its copy in the journal, and its state at the beginning, which never
// changes.
type entry struct {
	kept *Call // guarded by the journal's mu
	Call
}

// begin enters a call.
func (r *Runtime) begin(ctx context.Context, m Method, req proto.Message) *entry {
	s := r.subjectOf(req)
	c := &Call{
		Method: m, Start: time.Now(), Namespace: s.namespace, Pod: s.pod, PodUID: s.uid,
		SandboxID: s.sandboxID, Container: s.container, ContainerID: s.containerID,
		Attempt: s.attempt, Image: s.image, Caller: callerOf(ctx),
	}
	c.SetRequest(req)
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	r.journal.enter(c)
	return &entry{kept: c, Call: *c}
}

func callerOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("user-agent"), " ")
}

// end records the result and then calls OnCall's functions.
func (r *Runtime) end(e *entry, resp any, f *faults.Fault, err error) {
	j := &r.journal
	j.mu.Lock()
	c := e.kept
	c.End, c.Err = time.Now(), err
	if f != nil {
		c.Fault = inject.Describe(f)
	}
	if msg, ok := resp.(proto.Message); ok && err == nil {
		c.SetResponse(msg)
	}
	j.done++
	done, ended, watchers := j.done, *c, slices.Clone(j.watchers)
	j.mu.Unlock()
	for _, w := range watchers {
		w.f(done, ended)
	}
}

// OnCall calls f for each call to the runtime: after its effect, and before the caller receives the response. The
// arguments of f are the number of calls that have ended so far, and the call. f runs in the call's goroutine and may
// use the runtime's methods. The returned function removes f. A nil f is never called.
func (r *Runtime) OnCall(f func(done int, c Call)) (stop func()) {
	if f == nil {
		return func() {}
	}
	return r.watch(&watcher{f: f})
}

func (r *Runtime) watch(w *watcher) (stop func()) {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	r.journal.watchers = append(r.journal.watchers, w)
	return func() { r.unwatch(w) }
}

func (r *Runtime) unwatch(w *watcher) {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	r.journal.watchers = slices.DeleteFunc(r.journal.watchers, func(o *watcher) bool { return o == w })
}

// CrashAfter calls crash once, when the k-th call from now has had its effect and before its caller gets
// the response. If crash closes the agent's connection and cancels its context, the agent ends between
// two calls.
func (r *Runtime) CrashAfter(k int, crash func()) {
	var seen atomic.Int64
	w := &watcher{}
	w.f = func(int, Call) {
		if seen.Add(1) != int64(k) {
			return
		}
		r.unwatch(w)
		if crash != nil {
			crash()
		}
	}
	r.watch(w)
}

// Journal returns the calls so far, or the last Config.JournalLimit of them, in order of arrival. The
// caller owns the slice.
func (r *Runtime) Journal() Journal {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	j := make(Journal, len(r.journal.calls))
	for i, c := range r.journal.calls {
		j[i] = *c
	}
	return j
}
