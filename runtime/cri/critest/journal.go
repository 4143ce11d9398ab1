package critest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Call is one CRI call that the runtime received.
//
// It is safe to print: no form of it shows credentials, environments, commands or output. Request
// and Response return the messages themselves, without registry credentials.
type Call struct {
	N      int // in order of arrival, from 1
	Method Method
	// What the call is about, as far as it says so or the ID it has is known.
	Namespace, Pod, PodUID string
	SandboxID              string
	Container              string // name
	ContainerID            string
	Attempt                uint32 // of the container, or else of the sandbox
	Image                  string // as requested
	// Caller is the user agent of the connection, see grpc.WithUserAgent, which distinguishes the
	// agents on one runtime. gRPC appends its own name.
	Caller     string
	Start, End time.Time // End is zero while the call runs
	Err        error     // the response, a status error
	Fault      string    // what struck it, in words; "" for none

	request, response proto.Message
	auth              [sha256.Size]byte
}

// Done reports whether the call has ended.
func (c Call) Done() bool { return !c.End.IsZero() }

// Duration is the time from start to end, 0 while the call runs.
func (c Call) Duration() time.Duration {
	if !c.Done() {
		return 0
	}
	return c.End.Sub(c.Start)
}

// Request is the caller's copy of the request, without registry credentials.
func (c Call) Request() proto.Message { return proto.Clone(c.request) }

// Response is the caller's copy of the response, nil for an error.
func (c Call) Response() proto.Message {
	if c.response == nil {
		return nil
	}
	return proto.Clone(c.response)
}

// AuthIs reports whether a PullImage came with exactly these credentials.
func (c Call) AuthIs(a *runtimeapi.AuthConfig) bool {
	return c.Method == PullImage && c.auth == fingerprint(a)
}

func fingerprint(a *runtimeapi.AuthConfig) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q",
		a.GetUsername(), a.GetPassword(), a.GetAuth(), a.GetIdentityToken(), a.GetRegistryToken()))
}

// Subject is the method and its object, without IDs: the same in every run. Examples:
// "RunPodSandbox default/web attempt 0", "StartContainer default/web app attempt 2", "PullImage
// nginx:1".
func (c Call) Subject() string {
	parts := []string{string(c.Method)}
	if c.Pod != "" {
		parts = append(parts, c.Namespace+"/"+c.Pod)
	}
	if c.Container != "" {
		parts = append(parts, c.Container)
	}
	if c.Pod != "" && (c.Container != "" || c.SandboxID != "" || c.Method == RunPodSandbox) {
		parts = append(parts, fmt.Sprintf("attempt %d", c.Attempt))
	}
	if c.Image != "" && c.Container == "" {
		parts = append(parts, c.Image)
	}
	return strings.Join(parts, " ")
}

// String is one line: number, subject, duration, outcome and fault.
func (c Call) String() string {
	outcome := "OK"
	switch {
	case !c.Done():
		outcome = "running"
	case c.Err != nil:
		outcome = status.Code(c.Err).String()
	}
	s := fmt.Sprintf("%d %s %v %s", c.N, c.Subject(), c.Duration(), outcome)
	if c.Fault != "" {
		s += " (" + c.Fault + ")"
	}
	return s
}

// Format prints String under every verb, so that nothing else of the call does.
func (c Call) Format(w fmt.State, _ rune) { fmt.Fprint(w, c.String()) }

type journal struct {
	mu       sync.Mutex
	limit    int // of the calls kept, 0 for none
	begun    int
	calls    []*Call
	done     int
	watchers []*watcher
}

// enter numbers a call and keeps it. It must be called with mu held.
func (j *journal) enter(c *Call) {
	j.begun++
	c.N = j.begun
	j.calls = append(j.calls, c)
	if j.limit > 0 && len(j.calls) > j.limit {
		j.calls = slices.Delete(j.calls, 0, len(j.calls)-j.limit)
	}
}

type watcher struct{ f func(done int, c Call) }

// An entry is a running call: its copy in the journal, and its state at the beginning, which is not
// modified.
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
		Attempt: s.attempt, Image: s.image, Caller: callerOf(ctx), request: proto.Clone(req),
	}
	if q, ok := c.request.(*runtimeapi.PullImageRequest); ok {
		c.auth = fingerprint(q.GetAuth())
		mask(q.GetAuth())
	}
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	r.journal.enter(c)
	return &entry{kept: c, Call: *c}
}

func callerOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("user-agent"), " ")
}

// end records the result and then notifies watchers.
func (r *Runtime) end(e *entry, resp any, f *Fault, err error) {
	j := &r.journal
	j.mu.Lock()
	c := e.kept
	c.End, c.Err = time.Now(), err
	if f != nil {
		c.Fault = f.String()
	}
	if msg, ok := resp.(proto.Message); ok && err == nil {
		c.response = proto.Clone(msg)
		c.answered(msg)
	}
	j.done++
	done, ended, watchers := j.done, *c, slices.Clone(j.watchers)
	j.mu.Unlock()
	for _, w := range watchers {
		w.f(done, ended)
	}
}

const masked = "***"

// mask takes credentials out of a message that is ours.
func mask(a *runtimeapi.AuthConfig) {
	if a == nil {
		return
	}
	for _, s := range []*string{&a.Username, &a.Password, &a.Auth, &a.IdentityToken, &a.RegistryToken} {
		if *s != "" {
			*s = masked
		}
	}
}

// OnCall calls f after every call has had its effect and before its caller
// gets the answer, with the number of calls that have ended so far. f runs in
// the call's goroutine and may use the runtime's methods. The function that
// OnCall returns ends this. A nil f is never called.
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

// CrashAfter calls crash when the k-th call from now has had its effect,
// before its caller has got the answer: close the agent's connection there and
// cancel its context, and the agent is gone between two calls. crash runs once.
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

// Journal is the calls so far, or the last Config.JournalLimit of them, in order
// of arrival. The slice is the caller's.
func (r *Runtime) Journal() Journal {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	j := make(Journal, len(r.journal.calls))
	for i, c := range r.journal.calls {
		j[i] = *c
	}
	return j
}
