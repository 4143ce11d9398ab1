package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/internal/spdy"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/websocket"
)

const (
	closes  = "v5.channel.k8s.io"
	tunnels = "SPDY/3.1+portforward.k8s.io"
)

// dialWebSocket requests a WebSocket, with a token in the form of browsers.
func (n *node) dialWebSocket(path string, protocol string) (*websocket.Conn, error) {
	n.Helper()
	conn := must.Get(n.dial())(n)
	req := must.Get(http.NewRequest("GET", n.url+path, nil))(n)
	n.caller = conn
	req.Header.Set("Authorization", "Bearer hunter2")
	ws, _, err := websocket.Dial(conn, req, "base64url.bearer.authorization.k8s.io.hunter2", protocol)
	return ws, err
}

// opening dials in the background.
func (n *node) opening(path, protocol string) func() *websocket.Conn {
	type opened struct {
		ws  *websocket.Conn
		err error
	}
	c := make(chan opened, 1)
	go func() {
		ws, err := n.dialWebSocket(path, protocol)
		c <- opened{ws, err}
	}()
	return func() *websocket.Conn {
		n.Helper()
		o := <-c
		if o.err != nil {
			n.Fatal(o.err)
		}
		return o.ws
	}
}

// process opens a process's streams. The runtime is asked for streams of the given
// kinds, in this order: the first is stream 1, the next one stream 3.
func (n *node) process(b *backend, path string, kinds ...string) (*websocket.Conn, *spdy.Conn, net.Conn) {
	n.Helper()
	n.streams = b.url
	ws := n.opening(path, closes)
	conn := b.conn(n.TB)
	rt := spdy.Server(conn)
	for i, kind := range kinds {
		m, err := rt.Read()
		if err != nil || m.Kind != spdy.Opened || m.Stream != uint32(2*i+1) || m.Header.Get("streamtype") != kind {
			n.Fatalf("%+v, %v, want the stream %q", m, err, kind)
		}
		must.Do(n, rt.Accept(m.Stream))
	}
	return ws(), rt, conn
}

// said returns the next message, or the error that ended the stream.
func said(ws *websocket.Conn) string {
	message, err := ws.Read()
	if err != nil {
		return fmt.Sprint(errors.Is(err, io.EOF)) + ", the stream ended"
	}
	return string(message)
}

// TestTranslatedProcess checks that input on each channel arrives on the stream of its kind, and
// output on its channel. The runtime gets no information about the caller.
func TestTranslatedProcess(t *testing.T) {
	n, b := newNode(t, nil), newBackend(t, 0)
	n.run("web", "sleep infinity", isRunning)
	ws, rt, conn := n.process(b, "/exec/default/web/app?command=sh&input=1&output=1&tty=1", "error", "stdin", "stdout", "resize")
	req := <-b.seen
	if req.Method != "POST" || req.URL.Path != token || req.Header.Get("Upgrade") != "SPDY/3.1" || req.Header.Get("X-Stream-Protocol-Version") != "v4.channel.k8s.io" {
		t.Errorf("the runtime was sent %+v", req)
	}
	if strings.Contains(fmt.Sprint(req.Header), "hunter2") {
		t.Errorf("the runtime gets the caller's credentials: %v", req.Header)
	}
	for _, message := range []string{"\x00input", "\x01none", "", "\x07none", "\x04{}", "\xff\x01", "\xff\x00", "\x00too late"} {
		must.Do(t, ws.Write([]byte(message)))
	}
	for _, want := range []spdy.Message{{Kind: spdy.Data, Stream: 3, Data: []byte("input")}, {Kind: spdy.Data, Stream: 7, Data: []byte("{}")}, {Kind: spdy.Closed, Stream: 3}} {
		if m, err := rt.Read(); err != nil || m.Kind != want.Kind || m.Stream != want.Stream || string(m.Data) != string(want.Data) {
			t.Fatalf("%+v, %v, want %+v", m, err, want)
		}
	}
	text := strings.Repeat("0123456789", 30_000)
	go func() {
		_ = errors.Join(rt.Write(5, []byte(text)), rt.Write(99, []byte("none")), rt.Write(1, []byte(`{"status":`)), rt.Write(1, []byte(`"Success"}`)))
	}()
	var out bytes.Buffer
	for out.Len() < len(text) {
		message := said(ws)
		if message[0] != 1 {
			t.Fatalf("%.100q, want output of the process", message)
		}
		out.WriteString(message[1:])
	}
	if out.String() != text {
		t.Error("the received text differs from the output of the process")
	}
	if got := said(ws); got != "\x03"+`{"status":"Success"}` {
		t.Errorf("%q, want the status", got)
	}
	if got := said(ws); got != "true, the stream ended" {
		t.Errorf("%q, want the end", got)
	}
	if _, err := io.ReadAll(conn); err != nil { // which the server closes
		t.Error(err)
	}
}

// TestTranslatedProcessThatBreaks checks that an interrupted process is not reported as successful.
func TestTranslatedProcessThatBreaks(t *testing.T) {
	for name, die := range map[string]func(rt *spdy.Conn, conn net.Conn) error{
		"gone": func(_ *spdy.Conn, conn net.Conn) error { return conn.Close() },
		"nonsense": func(_ *spdy.Conn, conn net.Conn) error {
			_, err := io.WriteString(conn, "\x80\x02nonsense")
			return err
		},
		"long words": func(rt *spdy.Conn, _ net.Conn) error { return rt.Write(1, make([]byte, 65<<10)) },
	} {
		n, b := newNode(t, nil), newBackend(t, 0)
		n.run("web", "sleep infinity", isRunning)
		ws, rt, conn := n.process(b, "/attach/default/web/app?output=1", "error", "stdout")
		must.Do(t, die(rt, conn))
		if got := said(ws); got != "false, the stream ended" {
			t.Errorf("%s: %q, want a broken stream", name, got)
		}
	}
}

// TestTranslatedProcessEnds with its caller, and with the request's context though the
// caller does not read.
func TestTranslatedProcessEnds(t *testing.T) {
	n, b := newNode(t, nil), newBackend(t, 0)
	n.run("web", "sleep infinity", isRunning)
	ws, rt, _ := n.process(b, "/attach/default/web/app?output=1", "error", "stdout")
	ws.Close()
	if m, err := rt.Read(); err == nil {
		t.Errorf("%+v, want the end", m)
	}

	ctx, cancel := context.WithCancel(t.Context())
	returned := n.watched(ctx)
	_, rt, _ = n.process(b, "/attach/default/web/app?output=1", "error", "stdout")
	go func() {
		for rt.Write(3, make([]byte, 1<<20)) == nil { // no caller reads it
		}
	}()
	time.Sleep(50 * time.Millisecond) // until all buffers are full
	cancel()
	select {
	case <-returned:
	case <-time.After(patience):
		t.Error("the handler does not return")
	}
}

// TestRuntimeThatDoesNotTranslate checks that the runtime's error is passed to the caller.
func TestRuntimeThatDoesNotTranslate(t *testing.T) {
	n := newNode(t, nil)
	n.run("web", "sleep infinity", isRunning)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "something")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	defer other.Close()
	for _, tt := range []struct{ url, want string }{
		{newBackend(t, http.StatusNotFound).url, "404 Not Found: the runtime says no"},
		{newBackend(t, http.StatusOK).url, "502 Bad Gateway: the runtime says no"},
		{other.URL, "502 Bad Gateway: the runtime's streaming server cannot be reached"},
		{"http://127.0.0.1:1", "502 Bad Gateway: the runtime's streaming server cannot be reached"},
		{"", "502 Bad Gateway: the runtime gave no URL for the stream"},
	} {
		n.streams = tt.url
		for path, protocol := range map[string]string{"/attach/default/web/app?output=1": closes, "/portForward/default/web": tunnels} {
			if _, err := n.dialWebSocket(path, protocol); err == nil || err.Error() != tt.want {
				t.Errorf("%s: %v, want %s", path, err, tt.want)
			}
		}
	}
}

// TestTunnel checks that SPDY data is passed unchanged in both directions.
func TestTunnel(t *testing.T) {
	n, b := newNode(t, nil), newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	for _, gone := range []string{"the caller", "the runtime"} {
		ws := n.opening("/portForward/default/web", tunnels)
		theirs := b.conn(t)
		req := <-b.seen
		if req.Method != "POST" || req.Header.Get("X-Stream-Protocol-Version") != "portforward.k8s.io" || strings.Contains(fmt.Sprint(req.Header), "hunter2") {
			t.Errorf("the runtime was sent %+v", req)
		}
		conn := ws()
		talk(t, sender{conn}, theirs, theirs)
		text := strings.Repeat("0123456789", 30_000)
		go func() { _, _ = io.WriteString(theirs, text) }() // the reader below notices missing bytes
		for got := ""; got != text; {
			if got += said(conn); len(got) > len(text) {
				t.Fatal("more comes than was sent")
			}
		}
		if gone == "the caller" {
			conn.Close()
			if _, err := theirs.Read(make([]byte, 1)); err == nil {
				t.Error("the runtime's end stays when the caller goes")
			}
			continue
		}
		theirs.Close()
		if got := said(conn); got != "true, the stream ended" {
			t.Errorf("%q, want the end", got)
		}
	}
}

type sender struct{ ws *websocket.Conn }

func (s sender) Write(b []byte) (int, error) { return len(b), s.ws.Write(b) }
