package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// oneUser is an Authenticator and Authorizer that knows one user, who may do everything but get the checkpoints.
type oneUser struct{ server.User }

func (u oneUser) AuthenticateRequest(*http.Request) (server.User, bool, error) {
	return u.User, true, nil
}

func (u oneUser) Authorize(_ context.Context, a server.Attributes) (bool, string, error) {
	return a.Subresource != "checkpoint", "", nil
}

// logger writes to the ledger, and reports each value with a control character: a log may print its lines below each
// other.
func (l *ledger) logger(t *testing.T) logr.Logger {
	check := func(values []any) []any {
		for _, v := range values {
			if text, ok := v.(string); ok && strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("a value of a line is %q", text)
			}
		}
		return values
	}
	return funcr.New(l.add, funcr.Options{RenderArgsHook: check, RenderValuesHook: check})
}

// openOnce sends a request for a stream, ends the stream once it is answered, and returns the status of the answer.
func openOnce(t *testing.T, method, url string) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, method, url, nil))(t)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	resp.Body.Close()
	return resp.StatusCode
}

// TestStreamsAreAudited checks that each stream and each followed log leaves two lines, at its beginning and at its end, with the
// user, the verb, the pod and the container, also if the runtime refuses it. Rejected requests have lines with
// the user, too. No command is in the log, and no name of a user breaks a line.
func TestStreamsAreAudited(t *testing.T) {
	for user, inLog := range map[string]string{
		"ann": "ann",
		"eve\n\"Stream begins\" \"user\"=\"ann\"": `"eve\n\"Stream begins\" \"user\"=\"ann\""`,
		"eve\r\x1b[2K":  `"eve\r\x1b[2K"`,
		"eve\x85\x9b2K": `"eve\x85\x9b2K"`, // the same in eight bits
	} {
		t.Run(strconv.Quote(user), func(t *testing.T) {
			var log ledger
			n := newNode(t, func(c *server.Config) {
				c.Log, c.Checkpoints = log.logger(t), t.TempDir()
				c.Authenticator, c.Authorizer = oneUser{server.User{Name: user, UID: "of " + user}}, oneUser{}
			})
			b := newBackend(t, 0)
			n.streams = b.url
			n.run("web", "echo hello; sleep infinity", isRunning)
			who := `"user"=` + strconv.Quote(inLog) + ` "uid"="`
			streamsLeaveTwoLines(t, n, &log, who)
			refusalsLeaveLines(t, n, &log, who)
			if log.has("hunter2") {
				t.Error("a command is in the log")
			}
		})
	}
}

func streamsLeaveTwoLines(t *testing.T, n *node, log *ledger, who string) {
	for path, verb := range map[string]string{
		execPath + "&command=hunter2": "exec", "/attach/default/web/app?output=1": "attach", "/portForward/default/web?port=80": "portForward",
		"/run/default/web/app?cmd=true+hunter2": "run", "/containerLogs/default/web/app?follow=true": "containerLogs",
	} {
		method, container := "POST", "app"
		switch verb {
		case "containerLogs":
			method = "GET"
		case "portForward":
			container = ""
		}
		of := who + `%"address"="127.0.0.1:%"verb"="` + verb + `" "pod"="default/web" "container"="` + container + `"`
		begins, ends := strings.Split(`"msg"="Stream begins"%`+of, "%"), strings.Split(`"msg"="Stream has ended"%`+of+`%"duration"`, "%")
		openOnce(t, method, n.url+path)
		n.wait(func() bool { return log.countAll(ends...) == 1 })
		runtime := n.streams
		n.streams = "http://127.0.0.1:1" // nothing answers there
		openOnce(t, method, n.url+path)
		n.streams = runtime
		n.wait(func() bool { return log.countAll(ends...) >= 2 })
		if b, e := log.countAll(begins...), log.countAll(ends...); b != 2 || e != 2 {
			t.Errorf("%s: two streams have %d lines for their beginning and %d for their end", verb, b, e)
		}
	}
}

func refusalsLeaveLines(t *testing.T, n *node, log *ledger, who string) {
	if got := openOnce(t, "POST", n.url+"/checkpoint/default/web/app"); got != http.StatusForbidden || !log.has("Request is forbidden", who, `"subresource"="checkpoint"`) {
		t.Errorf("a forbidden request is answered %d, and its line is missing or lacks %s", got, who)
	}
	for range 2 {
		n.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/containerLogs/default/web/app", nil))
	}
	if got := log.countAll("Log is read", who, `"container"="app"`); got != 1 {
		t.Errorf("two reads of a log have %d lines, want 1", got)
	}
	n.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/explain/default/x%0a%22user%22=%22ann%22", nil))
	if !log.has("Request is answered", who, `"path"="/explain/default/x%0a`) {
		t.Errorf("the path of a request is not in the log, or not escaped")
	}
}
