package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/server"
)

// token is in a stream's URL: a caller with the token may use the stream.
const token = "/exec/jR2fT9"

// A backend is the streaming server of a runtime, for one stream at a time.
type backend struct {
	url   string
	seen  chan *http.Request
	conns chan net.Conn
}

// newBackend serves streams, or refuses them.
func newBackend(t testing.TB, refuse int) *backend {
	b := &backend{seen: make(chan *http.Request, 1000), conns: make(chan net.Conn, 1000)}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.seen <- r
		if refuse != 0 {
			http.Error(w, "the runtime says no", refuse)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.Header().Set("X-Stream-Protocol-Version", r.Header.Get("X-Stream-Protocol-Version"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, read, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		b.conns <- readConn{conn, read}
	}))
	t.Cleanup(web.Close)
	b.url = web.URL + token
	return b
}

// A readConn is a connection whose first bytes have been read already.
type readConn struct {
	net.Conn
	read io.Reader
}

func (c readConn) Read(b []byte) (int, error) { return c.read.Read(b) }

// conn is the runtime's end of the stream.
func (b *backend) conn(t testing.TB) net.Conn {
	t.Helper()
	select {
	case c := <-b.conns:
		t.Cleanup(func() { c.Close() })
		return c
	case <-time.After(patience):
		t.Fatal("the runtime is not asked")
		return nil
	}
}

// open requests a stream, and returns the response and the caller's end.
func (n *node) open(method, path, protocol string) (*http.Response, net.Conn, *bufio.Reader) {
	n.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(n.url, "http://")))(n)
	n.Cleanup(func() { conn.Close() })
	must.Do(n, conn.SetDeadline(time.Now().Add(patience)))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: node1\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"+
		"Authorization: Bearer hunter2\r\nCookie: a=hunter2\r\nX-Remote-Extra-Why: hunter2\r\n"+
		"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.hunter2, v4.channel.k8s.io\r\n\r\n", method, path, protocol)
	r := bufio.NewReader(conn)
	resp := must.Get(http.ReadResponse(r, &http.Request{Method: method}))(n)
	return resp, conn, r
}

const execPath = "/exec/default/web/app?command=sh&command=-c&command=echo+hunter2&input=1&output=1&error=1"

func TestStreamsAreHandedOn(t *testing.T) {
	n := newNode(t, nil)
	b := newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	for _, path := range []string{execPath, "/attach/default/web/app?output=1", "/portForward/default/web?port=80", "/portForward/default/web/uid-of-web?port=80"} {
		for _, method := range []string{"GET", "POST"} {
			for _, protocol := range []string{"SPDY/3.1", "websocket"} {
				resp, conn, r := n.open(method, path, protocol)
				if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != protocol {
					t.Fatalf("%s %s: %v, want StatusCode 101 and %v", method, path, resp, protocol)
				}
				theirs := b.conn(t)
				talk(t, conn, theirs, theirs)
				talk(t, theirs, conn, r)
				conn.Close()
				if _, err := theirs.Read(make([]byte, 1)); err == nil {
					t.Error("the runtime's end stays when the caller goes")
				}
				req := <-b.seen
				if req.Method != method || req.URL.Path != token || req.URL.RawQuery != "" || req.Header.Get("X-Stream-Protocol-Version") != "v4.channel.k8s.io" {
					t.Errorf("the runtime was sent %+v", req)
				}
				if got := req.Header.Get("Sec-WebSocket-Protocol"); got != "v4.channel.k8s.io" {
					t.Errorf("the runtime is offered the protocols %q, want v4.channel.k8s.io", got)
				}
				if strings.Contains(fmt.Sprint(req.Header), "hunter2") {
					t.Errorf("the runtime gets the caller's credentials: %v", req.Header)
				}
			}
		}
	}
}

// talk sends something large from one end to the other.
func talk(t *testing.T, from io.Writer, conn net.Conn, to io.Reader) {
	t.Helper()
	text := strings.Repeat("0123456789", 30_000)
	go func() { _, _ = io.WriteString(from, text) }() // the reader below notices missing bytes
	must.Do(t, conn.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, len(text))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != text {
		t.Errorf("%v: %.20q, want %v and no error", err, got, text)
	}
}

func TestStreamAsksTheRuntime(t *testing.T) {
	n := newNode(t, nil)
	b := newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	id, sandbox := "", ""
	for _, p := range n.agent.Pods() {
		status, _ := n.agent.Cache().Get(p.Pod.UID)
		id, sandbox = status.Latest("app").ID.ID, status.ActiveSandbox().ID
	}
	for path, is := range map[string]func(any) bool{
		execPath: func(req any) bool {
			r, ok := req.(*runtimeapi.ExecRequest)
			return ok && r.ContainerId == id && slices.Equal(r.Cmd, []string{"sh", "-c", "echo hunter2"}) && r.Stdin && r.Stdout && r.Stderr && !r.Tty
		},
		execPath + "&tty=1": func(req any) bool {
			r, ok := req.(*runtimeapi.ExecRequest)
			return ok && r.Stdin && r.Stdout && !r.Stderr && r.Tty // a terminal has one output
		},
		"/attach/default/web/app?error=1": func(req any) bool {
			r, ok := req.(*runtimeapi.AttachRequest)
			return ok && r.ContainerId == id && !r.Stdin && !r.Stdout && r.Stderr
		},
		"/portForward/default/web?port=80&port=443,8080": func(req any) bool {
			r, ok := req.(*runtimeapi.PortForwardRequest)
			return ok && r.PodSandboxId == sandbox && slices.Equal(r.Port, []int32{80, 443, 8080})
		},
	} {
		_, conn, _ := n.open("POST", path, "websocket")
		conn.Close()
		if req := <-n.asked; !is(req) {
			t.Errorf("%s: the runtime is asked for %v", path, req)
		}
	}
}

func TestStreamsThatCannotBe(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	n.run("over", "exit 0", isOver)
	n.wait(func() bool { _, text := n.ask("GET", "/runningpods"); return !strings.Contains(text, "over") })
	const exec = "/exec/default/web/app"
	for path, want := range map[string]string{
		exec + "?command=sh":                            `400 you must specify at least 1`,
		exec + "?output=1":                              `400 command is missing`,
		"/exec/default/web/none?command=a&output=1":     `404 container "none" not found`,
		"/exec/default/none/app?command=a&output=1":     `404 pod "default/none" does not exist`,
		"/exec/default/over/app?command=a&output=1":     `404 container "app" of pod "over" is not running`,
		"/attach/default/web/app":                       `400 you must specify`,
		"/attach/default/web/x/app?output=1":            `404 pod "default/web" does not exist`,
		"/portForward/default/web":                      `400 port is missing`,
		"/portForward/default/web?port=0":               `400 port: "0" is no port`,
		"/portForward/default/web?port=80,65536":        `400 port: "65536" is no port`,
		"/portForward/default/none?port=80":             `404 pod "default/none" does not exist`,
		"/portForward/default/over?port=80":             `404 pod "over" is not running`,
		exec + "?command=a&output=1":                    `502 the runtime gave no URL`,
		"/portForward/default/web/uid-of-web?port=8080": `502 the runtime gave no URL`,
	} {
		resp, _, _ := n.open("POST", path, "websocket")
		text, _ := io.ReadAll(resp.Body)
		if got := fmt.Sprint(resp.StatusCode, " ", string(text)); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	n.want("POST", execPath, 400, "Upgrade request required")
	n.want("GET", "/portForward/default/web", 400, "Upgrade request required")
}

func TestRuntimeRefusesAStream(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	n.streams = newBackend(t, http.StatusNotFound).url
	resp, _, _ := n.open("POST", execPath, "SPDY/3.1")
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 404 || !strings.Contains(string(text), "the runtime says no") {
		t.Errorf("%d %q, want 404 and %q in it", resp.StatusCode, text, "the runtime says no")
	}
}

// TestErrorsContainNoSecrets checks that errors and logs contain neither the command nor the URL of the stream.
func TestErrorsContainNoSecrets(t *testing.T) {
	var lines []string
	n := newNode(t, func(c *server.Config) {
		c.Log = funcr.New(func(prefix, args string) { lines = append(lines, prefix+args) }, funcr.Options{Verbosity: 10})
	})
	n.run("web", "sleep infinity", isRunning)
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	n.streams = "http://" + lis.Addr().String() + token
	lis.Close() // no server listens
	resp, _, _ := n.open("POST", execPath, "SPDY/3.1")
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 502 || !strings.Contains(string(text), "cannot be reached") {
		t.Errorf("%d %q, want 502 and %q in it", resp.StatusCode, text, "cannot be reached")
	}
	said := strings.Join(lines, "\n") + string(text)
	if len(lines) < 2 || strings.Contains(said, "hunter2") || strings.Contains(said, token) {
		t.Errorf("want at least 2 log lines, and no %q and no %v in\n%s", "hunter2", token, said)
	}
}

// TestStreamEnds checks that a stream ends when the runtime dies or closes it, and with the
// context of the request, even if the caller neither reads nor leaves.
func TestStreamEnds(t *testing.T) {
	n := newNode(t, nil)
	b := newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	_, _, r := n.open("POST", execPath, "SPDY/3.1")
	theirs := b.conn(t)
	fmt.Fprint(theirs, "the last words")
	theirs.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "the last words" {
		t.Errorf("%q, %v, want %q and no error", text, err, "the last words")
	}

	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(returned)
		n.handler.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer web.Close()
	n.url = web.URL
	n.open("POST", execPath, "SPDY/3.1")
	theirs = b.conn(t)
	go func() { _, _ = io.Copy(theirs, endless{}) }() // no caller reads it
	time.Sleep(50 * time.Millisecond)                 // until all buffers are full
	cancel()
	select {
	case <-returned:
	case <-time.After(patience):
		t.Error("the handler does not return")
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestSlowReader checks that a caller that does not read does not delay other callers.
func TestSlowReader(t *testing.T) {
	n := newNode(t, nil)
	b := newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	n.open("POST", execPath, "SPDY/3.1")
	slow := b.conn(t)
	full := make(chan error, 1)
	go func() {
		_, err := io.Copy(slow, endless{})
		full <- err
	}()
	for range 100 {
		_, conn, r := n.open("POST", execPath, "SPDY/3.1")
		theirs := b.conn(t)
		fmt.Fprintln(theirs, "quick")
		if line, err := r.ReadString('\n'); err != nil || line != "quick\n" {
			t.Fatalf("%q, %v, want %q and no error", line, err, "quick\n")
		}
		conn.Close()
	}
	select {
	case err := <-full:
		t.Error(errors.Join(errors.New("the stream of the slow reader ended"), err))
	default:
	}
}
