package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/syncpod/server"
)

// ways are all kinds of requests, with the permission that each needs.
var ways = []struct {
	method, path string
	verb         string
	resources    string
}{
	{"GET", "/containerLogs/default/web/app", "get", "proxy"},
	{"GET", "/exec/default/web/app?command=a&output=1", "create", "proxy"},
	{"POST", "/exec/default/web/app?command=a&output=1", "create", "proxy"},
	{"POST", "/exec/default/web/uid/app", "create", "proxy"},
	{"GET", "/attach/default/web/app", "create", "proxy"},
	{"POST", "/attach/default/web/uid/app", "create", "proxy"},
	{"GET", "/portForward/default/web", "create", "proxy"},
	{"POST", "/portForward/default/web/uid", "create", "proxy"},
	{"POST", "/run/default/web/app?cmd=a", "create", "proxy"},
	{"POST", "/run/default/web/uid/app?cmd=a", "create", "proxy"},
	{"POST", "/checkpoint/default/web/app", "create", "checkpoint"},
	{"GET", "/pods", "get", "pods proxy"},
	{"HEAD", "/pods", "get", "pods proxy"},
	{"GET", "/pods/", "get", "pods proxy"},
	{"GET", "/runningpods", "get", "pods proxy"},
	{"GET", "/runningpods/", "get", "pods proxy"},
	{"GET", "/stats/summary", "get", "stats"},
	{"GET", "/stats/summary?only_cpu_and_memory=true", "get", "stats"},
	{"GET", "/metrics", "get", "metrics"},
	{"GET", "/metrics/resource", "get", "metrics"},
	{"GET", "/metrics/cadvisor", "get", "metrics"},
	{"GET", "/metrics/probes", "get", "metrics"},
	{"GET", "/timeline", "get", "proxy"},
	{"POST", "/plan", "create", "proxy"},
	{"POST", "/drain", "create", "proxy"},
	{"GET", "/timeline?format=trace", "get", "proxy"},
	{"GET", "/healthz", "get", "healthz proxy"},
	{"GET", "/healthz/syncloop", "get", "healthz proxy"},
	{"GET", "/configz", "get", "configz proxy"},
	{"GET", "/logs", "get", "log"},
	{"GET", "/logs/messages", "get", "log"},
	{"GET", "/logs/a/b/c", "get", "log"},
	{"GET", "/", "get", "proxy"},
	{"PUT", "/pods", "update", "proxy"},
	{"PATCH", "/pods", "patch", "proxy"},
	{"DELETE", "/pods", "delete", "proxy"},
	{"GET", "/pods/../exec/default/web/app", "get", "proxy"},
	{"GET", "//pods", "get", "proxy"},
	{"GET", "/pods/x", "get", "proxy"},
	{"BREW", "/pods", "", "proxy"},
}

// asked is an Authenticator and an Authorizer that records its calls.
type asked struct {
	user, allow bool
	err         error
	attributes  []server.Attributes
}

func (a *asked) AuthenticateRequest(*http.Request) (server.User, bool, error) {
	return server.User{Name: "ann"}, a.user, a.err
}

func (a *asked) Authorize(_ context.Context, attributes server.Attributes) (bool, string, error) {
	a.attributes = append(a.attributes, attributes)
	return a.allow, "", a.err
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "http://node1"+path, nil))
	return w
}

func TestNoUserIsAuthorizedByDefault(t *testing.T) {
	n := newNode(t, func(c *server.Config) { c.Authenticator, c.Authorizer = nil, nil })
	for _, way := range ways {
		w := ask(n.handler, way.method, way.path)
		if way.path == "/healthz" {
			if w.Code != 200 && w.Code != 500 || w.Body.Len() > 200 {
				t.Errorf("%s: %d %q, want 200 or 500, and at most 200 bytes", way.path, w.Code, w.Body)
			}
			continue
		}
		if w.Code != 401 || w.Body.String() != "Unauthorized\n" {
			t.Errorf("%s %s: %d %q, want Code 401 and String %q", way.method, way.path, w.Code, w.Body, "Unauthorized\n")
		}
	}
}

func TestUnknownUsersAreRejected(t *testing.T) {
	for _, who := range []*asked{{}, {user: true, err: errors.New("no token review")}} {
		n := newNode(t, func(c *server.Config) { c.Authenticator, c.Authorizer = who, who })
		for _, way := range ways {
			if w := ask(n.handler, way.method, way.path); w.Code != 401 || w.Body.String() != "Unauthorized\n" {
				t.Errorf("%s %s: %d %q, want Code 401 and String %q", way.method, way.path, w.Code, w.Body, "Unauthorized\n")
			}
		}
		if len(who.attributes) > 0 {
			t.Errorf("the Authorizer was called for requests that no user may make: %v", who.attributes)
		}
	}
}

func TestAuthorizerIsAsked(t *testing.T) {
	for _, way := range ways {
		who := &asked{user: true}
		n := newNode(t, func(c *server.Config) { c.Authenticator, c.Authorizer = who, who })
		if w := ask(n.handler, way.method, way.path); w.Code != 403 {
			t.Errorf("%s %s: %d %q, want 403", way.method, way.path, w.Code, w.Body)
		}
		path, _, _ := strings.Cut(way.path, "?")
		var want []server.Attributes
		for subresource := range strings.FieldsSeq(way.resources) {
			want = append(want, server.Attributes{
				User: server.User{Name: "ann"}, Verb: way.verb, APIVersion: "v1", Resource: "nodes", Subresource: subresource, Name: "node1", Path: path,
			})
		}
		if !slices.EqualFunc(who.attributes, want, func(a, b server.Attributes) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("%s %s: asked for\n%+v, want\n%+v", way.method, way.path, who.attributes, want)
		}
		who.allow = true
		if w := ask(n.handler, way.method, way.path); w.Code == 401 || w.Code == 403 {
			t.Errorf("%s %s, allowed: %d %q, want neither 401 nor 403", way.method, way.path, w.Code, w.Body)
		}
	}
}

// unsure authenticates every caller, and returns errors for authorizations.
type unsure struct{ everybody }

func (unsure) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return true, "", errors.New("no review, says hunter2")
}

func TestAuthorizerThatFails(t *testing.T) {
	n := newNode(t, func(c *server.Config) { c.Authorizer = unsure{} })
	if w := ask(n.handler, "GET", "/pods"); w.Code != 500 || w.Body.String() != "Authorization error\n" {
		t.Errorf("%d %q, want Code 500 and String %q", w.Code, w.Body, "Authorization error\n")
	}
}

// FuzzServe sends arbitrary requests: the server answers only requests for existing objects, and only
// authorized callers.
func FuzzServe(f *testing.F) {
	for _, way := range ways {
		path, query, _ := strings.Cut(way.path, "?")
		f.Add(way.method, path, query, true)
		f.Add(way.method, path, query, false)
	}
	f.Add("GET", "/containerLogs/default/%2e%2e/app", "tailLines=99999999999999999999&follow&limitBytes=-1", true)
	f.Add("GET", "/logs/%00", "", true)
	f.Add("GET", "/logs/%AF", "", true)
	n := newNode(f, func(c *server.Config) {
		c.Authenticator, c.NodeLogs, c.Checkpoints, c.Configz = bearer{}, f.TempDir(), "/c", "c"
	})
	n.run("web", "echo one; sleep infinity", isRunning)
	f.Fuzz(func(t *testing.T, method, path, query string, known bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // a log may be followed
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, "http://node1/", nil)
		if err != nil {
			return // no such method
		}
		if req.URL, err = req.URL.Parse(path); err != nil || req.URL.Host != "node1" {
			return
		}
		req.URL.RawQuery = query
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
		if known {
			req.Header.Set("Authorization", "Bearer x")
		}
		w := httptest.NewRecorder()
		n.handler.ServeHTTP(w, req)
		for len(n.asked) > 0 {
			<-n.asked
		}
		ran := strings.HasPrefix(req.URL.Path, "/run/") // reports the end of the command with status 500
		gone := ctx.Err() != nil                        // a caller that has left sees no answer
		if w.Code >= 500 && w.Code != 502 && !ran && !gone {
			t.Errorf("%s %s: %d %q, want no other status of 500 and above than 502", method, req.URL, w.Code, w.Body)
		}
		if !known && w.Code != 401 || strings.Contains(w.Body.String(), "root:x:0") {
			t.Errorf("%s %s: %d %q, want 401 for an unknown caller, and no %q in it", method, req.URL, w.Code, w.Body, "root:x:0")
		}
	})
}

// bearer authenticates every request with a token.
type bearer struct{ everybody }

func (bearer) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	return server.User{Name: "ann"}, r.Header.Get("Authorization") != "", nil
}
