package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// TestRedirectOfTheRuntime: it is neither followed nor handed on.
func TestRedirectOfTheRuntime(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for _, code := range []int{300, 301, 302, 304, 307, 308} {
		runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL+"/stolen")
			w.Header().Set("Set-Cookie", "a=stolen")
			w.WriteHeader(code)
		}))
		defer runtime.Close()
		n.streams = runtime.URL
		for _, path := range []string{execPath, "/attach/default/web/app?output=1", "/portForward/default/web?port=80"} {
			for _, protocol := range []string{"SPDY/3.1", "websocket"} {
				resp, _, _ := n.open("POST", path, protocol)
				text, _ := io.ReadAll(resp.Body)
				if all := fmt.Sprint(resp.Header, string(text)); resp.StatusCode != 502 || strings.Contains(all, "stolen") {
					t.Errorf("%d: %s over %s: %d %s, want 502 and no %q in it", code, path, protocol, resp.StatusCode, all, "stolen")
				}
			}
		}
		for path, protocol := range map[string]string{"/attach/default/web/app?output=1": closes, "/portForward/default/web": tunnels} {
			if _, err := n.dialWebSocket(path, protocol); err == nil || !strings.HasPrefix(err.Error(), "502 ") || strings.Contains(err.Error(), "stolen") {
				t.Errorf("%d: %s: %v, want 502", code, path, err)
			}
		}
	}
}

// TestRefusalHasNoHeadersOfTheRuntime: only its status and its text are handed on.
func TestRefusalHasNoHeadersOfTheRuntime(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "a=stolen")
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(404)
	}))
	defer runtime.Close()
	n.streams = runtime.URL
	resp, _, _ := n.open("POST", execPath, "SPDY/3.1")
	if resp.StatusCode != 404 || resp.Header.Get("Set-Cookie") != "" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%d %v, want 404 as plain text without a cookie", resp.StatusCode, resp.Header)
	}
}

// TestRefusalsOfTheRuntimeAreBounded: of a text without an end 64 KiB are handed on, and headers above 64 KiB are not read.
func TestRefusalsOfTheRuntimeAreBounded(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/headers" {
			w.Header().Set("X", strings.Repeat("x", 128<<10))
		}
		w.WriteHeader(404)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat("x", 32<<10))
		}
	}))
	defer runtime.Close()
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		for at, want := range map[string]int{"/headers": 502, "/text": 404} {
			n.streams = runtime.URL + at
			resp, _, _ := n.open("POST", execPath, protocol)
			text, err := io.ReadAll(resp.Body)
			if resp.StatusCode != want || err != nil || len(text) > 64<<10+1 {
				t.Errorf("%s over %s: %d with %d bytes, %v, want %d and 64 KiB at most", at, protocol, resp.StatusCode, len(text), err, want)
			}
		}
	}
	n.streams = runtime.URL + "/text"
	if _, err := n.dialWebSocket("/attach/default/web/app?output=1", closes); err == nil || !strings.HasPrefix(err.Error(), "404 ") {
		t.Errorf("%.100v, want 404", err)
	}
}

// named is an Authenticator that takes the user's name from a header.
type named struct{ everybody }

func (named) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	return server.User{Name: r.Header.Get("User")}, true, nil
}

// A ledger is a log's lines.
type ledger struct {
	mu    sync.Mutex
	lines []string
}

func (l *ledger) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, prefix+args)
}

// countAll returns the number of lines that have all words.
func (l *ledger) countAll(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

func (l *ledger) has(words ...string) bool { return l.countAll(words...) > 0 }

// A follower opens streams, one for each log that it follows, until cancel is called.
type follower struct {
	*node
	log    ledger
	ctx    context.Context
	cancel context.CancelFunc
}

func newFollower(t *testing.T) *follower {
	f := &follower{}
	f.node = newNode(t, func(c *server.Config) { c.Authenticator, c.Log = named{}, f.log.logger(t) })
	f.ctx, f.cancel = context.WithCancel(t.Context())
	t.Cleanup(f.cancel)
	return f
}

// pod runs a pod.
func (f *follower) pod(namespace, name string) {
	f.Helper()
	f.runIn(namespace, name, "echo hello; sleep infinity", isRunning)
}

// follow opens a stream of a user to a pod, and returns the status and the text of the answer.
func (f *follower) follow(user, pod string) (int, string) {
	w := &begun{ResponseRecorder: httptest.NewRecorder(), begun: make(chan int, 1)}
	r := httptest.NewRequestWithContext(f.ctx, "GET", "/containerLogs/"+pod+"/app?follow=true", nil)
	r.Header.Set("User", user)
	ended := make(chan struct{})
	go func() {
		f.handler.ServeHTTP(w, r)
		close(ended)
	}()
	code := <-w.begun
	if code == 200 {
		return code, ""
	}
	<-ended
	return code, w.Body.String()
}

// fill opens as many streams as a limit allows.
func (f *follower) fill(user, pod string, n int) {
	f.Helper()
	for i := range n {
		if code, text := f.follow(user, pod); code != 200 {
			f.Fatalf("stream %d of %s to %s: %d %q", i, user, pod, code, text)
		}
	}
}

// refused checks that one more stream is answered 429, with the limit, and that a line of the log has the user.
func (f *follower) refused(user, pod, limit string) {
	f.Helper()
	if code, text := f.follow(user, pod); code != 429 || text != "too many streams are open: the limit of a "+limit+"\n" {
		f.Errorf("one more stream of %s to %s: %d %q, want 429 and the limit of a %s", user, pod, code, text, limit)
	}
	if !f.log.has("Stream is refused", `"user"="`+user+`"`, `"verb"="containerLogs"`, `"reason"="`) {
		f.Errorf("no line of the log has the refusal of %s", user)
	}
}

// again checks that a stream may be opened once the others have ended.
func (f *follower) again(user, pod string) {
	f.Helper()
	f.cancel()
	f.ctx = f.Context()
	f.wait(func() bool { code, _ := f.follow(user, pod); return code == 200 })
}

// fillShare opens streams of a user to a pod until its namespace has its share, and returns how
// many that are.
func (f *follower) fillShare(user, pod string) (n int) {
	f.Helper()
	for ; n <= 512; n++ {
		code, text := f.follow(user, pod)
		if code == 200 {
			continue
		}
		if code != 429 || !strings.HasPrefix(text, "the user has too many streams to this namespace: at most ") {
			f.Errorf("stream %d of %s to %s: %d %q, want 429 and the share", n, user, pod, code, text)
		}
		return n
	}
	f.Fatalf("%s has %d streams to %s", user, n, pod)
	return n
}

// TestStreamsOfAUserAreBounded, and other users still get theirs.
func TestStreamsOfAUserAreBounded(t *testing.T) {
	f := newFollower(t)
	for i, namespace := range []string{"a", "b", "c", "d"} {
		f.pod(namespace, fmt.Sprint("one", i))
		f.pod(namespace, fmt.Sprint("two", i))
	}
	f.fill("ann", "a/one0", 128)
	f.fill("ann", "a/two0", 128)
	f.fill("ann", "b/one1", 107)
	f.fill("ann", "c/one2", 18)
	f.fill("ann", "d/one3", 3)
	f.refused("ann", "c/one2", "user is 384")
	f.refused("ann", "d/one3", "user is 384")
	f.fill("bob", "c/one2", 64)
	f.fill("carol", "c/two2", 64)
	f.refused("dan", "c/two2", "node is 512")
	f.again("ann", "c/two2")
}

// TestNamespacesShareTheStreamsOfAUser: all users of an API server are one user, and a few
// namespaces cannot take all of its streams.
func TestNamespacesShareTheStreamsOfAUser(t *testing.T) {
	f := newFollower(t)
	namespaces := []string{"a", "b", "c", "d", "e"}
	for i, namespace := range namespaces {
		f.pod(namespace, fmt.Sprint("one", i))
	}
	f.fill("ann", "a/one0", 320)
	f.refused("ann", "a/one0", "pod is 320")
	for i, least := range []int{50, 8} {
		if n := f.fillShare("ann", fmt.Sprintf("%s/one%d", namespaces[i+1], i+1)); n < least {
			t.Errorf("namespace %d has %d streams, want %d or more", i+2, n, least)
		}
	}
	f.fill("ann", "d/one3", 1)
	f.fill("bob", "e/one4", 1)
}

// TestStreamsOfAPodAreBounded: over all users and kinds of streams, and other pods still get theirs.
func TestStreamsOfAPodAreBounded(t *testing.T) {
	f := newFollower(t)
	f.pod("a", "one")
	f.pod("a", "two")
	f.fill("ann", "a/one", 160)
	f.fill("bob", "a/one", 160)
	f.refused("ann", "a/one", "pod is 320")
	f.refused("carol", "a/one", "pod is 320")
	for _, request := range []string{
		"GET /exec/a/one/app?command=true&output=1", "GET /attach/a/one/app?output=1", "GET /portForward/a/one?port=80", "POST /run/a/one/app?cmd=true",
		"GET /containerLogs/a/one/app", "GET /containerLogs/a/one/app?follow=true",
	} {
		method, path, _ := strings.Cut(request, " ")
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header = http.Header{"User": {"carol"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
		f.handler.ServeHTTP(w, r)
		if text := w.Body.String(); w.Code != 429 || !strings.Contains(text, "pod is 320") {
			t.Errorf("%s: %d %q, want 429 and the limit", request, w.Code, text)
		}
	}
	f.fill("ann", "a/two", 1)
	f.again("carol", "a/one")
}

// TestStreamsOfANamespaceAreBounded: over all users and pods, and other namespaces still get theirs.
func TestStreamsOfANamespaceAreBounded(t *testing.T) {
	f := newFollower(t)
	for _, pod := range []string{"one", "two", "three"} {
		f.pod("a", pod)
	}
	f.pod("b", "four")
	f.fill("ann", "a/one", 176)
	f.fill("bob", "a/two", 176)
	f.refused("ann", "a/three", "namespace is 352")
	f.fill("ann", "b/four", 1)
	f.again("carol", "a/three")
}

// begun reports the status of an answer when that is written.
type begun struct {
	*httptest.ResponseRecorder
	once  sync.Once
	begun chan int
}

func (b *begun) WriteHeader(code int) {
	b.ResponseRecorder.WriteHeader(code)
	b.once.Do(func() { b.begun <- code })
}

// TestIdleStreamEnds: of each kind.
func TestIdleStreamEnds(t *testing.T) {
	n := newNode(t, func(c *server.Config) { c.StreamIdleTimeout = 50 * time.Millisecond })
	b := newBackend(t, 0)
	n.streams = b.url
	n.run("web", "echo hello; sleep infinity", isRunning)
	for _, path := range []string{execPath, "/attach/default/web/app?output=1", "/portForward/default/web?port=80"} {
		_, conn, _ := n.open("POST", path, "SPDY/3.1")
		if _, err := b.conn(t).Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the runtime's end does not end", path)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the caller's end does not end", path)
		}
	}
	opened := n.opening("/portForward/default/web", tunnels)
	theirs := b.conn(t)
	opened()
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("the runtime's end of a tunnel does not end")
	}
	resp := must.Get(http.Get(n.url + "/containerLogs/default/web/app?follow=true"))(t)
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "hello\n" {
		t.Errorf("%q, %v, want the log and its end", text, err)
	}
}

// TestNoDebugging: what acts or shows more than a node's state is not served.
func TestNoDebugging(t *testing.T) {
	n := newNode(t, func(c *server.Config) { c.NoDebugging = true })
	n.run("web", "sleep infinity", isRunning)
	for _, way := range ways {
		w := ask(n.handler, way.method, way.path)
		off := false
		for _, prefix := range []string{"/containerLogs", "/exec", "/attach", "/portForward", "/run", "/timeline", "/plan", "/drain", "/configz", "/logs"} {
			off = off || strings.HasPrefix(way.path, prefix)
		}
		if is := w.Body.String() == "Debug endpoints are disabled.\n" && w.Code == 405; is != off {
			t.Errorf("%s %s: %d %q, want it disabled: %t", way.method, way.path, w.Code, w.Body, off)
		}
	}
}

// overloaded cannot decide now.
type overloaded struct{ authenticates bool }

func (o overloaded) AuthenticateRequest(*http.Request) (server.User, bool, error) {
	if o.authenticates {
		return server.User{Name: "ann"}, true, nil
	}
	return server.User{}, false, server.ErrBusy
}

func (overloaded) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return false, "", fmt.Errorf("authorizing: %w", server.ErrBusy)
}

func TestBusyIsTooManyRequests(t *testing.T) {
	for _, authenticates := range []bool{true, false} {
		var log ledger
		n := newNode(t, func(c *server.Config) {
			c.Authenticator, c.Authorizer = overloaded{authenticates}, overloaded{}
			c.Log = log.logger(t)
		})
		if w := ask(n.handler, "GET", "/pods"); w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %v, want 429 and Retry-After", w.Code, w.Header())
		}
		if len(log.lines) > 0 {
			t.Errorf("it is logged: %q", log.lines)
		}
	}
}

// TestFailedReviewsAreLoggedOnce: peers cannot fill the log.
func TestFailedReviewsAreLoggedOnce(t *testing.T) {
	var log ledger
	who := &asked{err: io.ErrUnexpectedEOF}
	n := newNode(t, func(c *server.Config) {
		c.Authenticator, c.Authorizer = who, who
		c.Log = log.logger(t)
	})
	begin := time.Now()
	for range 1000 {
		ask(n.handler, "GET", "/pods")
	}
	if most := 1 + int(time.Since(begin)/time.Second) + 1; len(log.lines) == 0 || len(log.lines) > most {
		t.Errorf("%d lines for 1000 requests, want 1 to %d", len(log.lines), most)
	}
}

// TestRefusalsOfTheRuntimeAreHarmless: the runtime's text of a refusal reaches the caller's terminal without control characters.
func TestRefusalsOfTheRuntimeAreHarmless(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, "no\x1b]0;owned\x07 such\u202e\nstream\n")
	}))
	defer runtime.Close()
	for _, protocol := range []string{"SPDY/3.1", "websocket"} {
		n.streams = runtime.URL
		resp, _, _ := n.open("POST", execPath, protocol)
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `no\x1b]0;owned\x07 such\u202e`+"\nstream") {
			t.Errorf("over %s: %q, %v", protocol, text, err)
		}
	}
}
