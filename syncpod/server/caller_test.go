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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/websocket"
	"github.com/podsync/podsync/syncpod/server"
)

// watched ends requests with a context, and reports each request that has returned.
func (n *node) watched(ctx context.Context) <-chan struct{} {
	n.Helper()
	returned := make(chan struct{}, 100)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { returned <- struct{}{} }()
		n.handler.ServeHTTP(w, r.WithContext(ctx))
	}))
	n.Cleanup(web.Close)
	n.url = web.URL
	return returned
}

// sendWithoutEnd sends input until the connection fails.
func sendWithoutEnd(ws *websocket.Conn) {
	for ws.Write(make([]byte, 64<<10)) == nil { // channel 0 is the input
	}
}

// TestLastWordsOfAProcess checks that the last output of a process reaches a caller that still sends unread input.
func TestLastWordsOfAProcess(t *testing.T) {
	n, b := newNode(t, nil), newBackend(t, 0)
	n.run("web", "sleep infinity", isRunning)
	returned := n.watched(t.Context())
	ws, rt, _ := n.process(b, "/exec/default/web/app?command=sh&input=1&output=1", "error", "stdin", "stdout")
	go sendWithoutEnd(ws)
	const size = 4 << 20
	go func() {
		_ = errors.Join(rt.Write(5, make([]byte, size)), rt.Write(1, []byte(`{"status":"Success"}`))) // the reader below notices missing bytes
	}()
	time.Sleep(300 * time.Millisecond) // until all buffers are full
	for got := 0; got < size; {
		message, err := ws.Read()
		if err != nil || len(message) == 0 || message[0] != 1 {
			t.Fatalf("after %d bytes: %.20q, %v, want %d", got, message, err, size)
		}
		got += len(message) - 1
	}
	if got := said(ws); got != "\x03"+`{"status":"Success"}` {
		t.Errorf("%q, want the status", got)
	}
	if got := said(ws); got != "true, the stream ended" {
		t.Errorf("%q, want the end", got)
	}
	ws.Close()
	wantReturn(t, returned, "process whose caller has received its status")
}

// TestLastWordsOfAPort checks that the last data of a port reaches a caller that still sends unread data.
func TestLastWordsOfAPort(t *testing.T) {
	n, b := newNode(t, nil), newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	opened := n.opening("/portForward/default/web", tunnels)
	theirs := b.conn(t).(readConn)
	ws := opened()
	const size = 4 << 20
	go func() {
		_, _ = theirs.Write(make([]byte, size)) // the reader below notices missing bytes
		_ = theirs.Conn.(*net.TCPConn).CloseWrite()
	}()
	go sendWithoutEnd(ws)
	time.Sleep(300 * time.Millisecond) // until all buffers are full
	for got := 0; got < size; {
		message, err := ws.Read()
		if err != nil {
			t.Fatalf("after %d bytes: %v, want %d", got, err, size)
		}
		got += len(message)
	}
	if got := said(ws); got != "true, the stream ended" {
		t.Errorf("%q, want the end", got)
	}
}

func wantReturn(t *testing.T, returned <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-returned:
	case <-time.After(patience):
		t.Fatalf("the handler of one %s does not return", what)
	}
}

// TestCallerLeavesWithoutReading checks that nothing is left of a stream after its caller has left in any way,
// although unread output has filled all buffers.
func TestCallerLeavesWithoutReading(t *testing.T) {
	n, b := newNode(t, nil), newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	returned := n.watched(t.Context())
	streams := map[string]func() (*websocket.Conn, func() error){
		"process": func() (*websocket.Conn, func() error) {
			ws, rt, _ := n.process(b, "/attach/default/web/app?output=1", "error", "stdout")
			return ws, func() error { return rt.Write(3, make([]byte, 1<<20)) }
		},
		"tunnel": func() (*websocket.Conn, func() error) {
			opened := n.opening("/portForward/default/web", tunnels)
			theirs := b.conn(t)
			return opened(), func() error { _, err := theirs.Write(make([]byte, 1<<20)); return err }
		},
	}
	for how, goes := range map[string]func(*websocket.Conn) error{
		"says so":         (*websocket.Conn).CloseWrite,
		"sends no more":   func(*websocket.Conn) error { return n.caller.(*net.TCPConn).CloseWrite() },
		"sends a bad one": func(*websocket.Conn) error { _, err := io.WriteString(n.caller, "nonsense"); return err },
	} {
		for kind, open := range streams {
			ws, print := open()
			printed := make(chan struct{})
			go func() {
				defer close(printed)
				for print() == nil { // the output is not read
				}
			}()
			time.Sleep(50 * time.Millisecond) // until all buffers are full
			must.Do(t, goes(ws))
			wantReturn(t, returned, kind+" whose caller "+how)
			<-printed
		}
	}
}

// The server waits at most the idle timeout for a caller that does not read its log.
func TestLogThatIsNotRead(t *testing.T) {
	n := newNode(t, func(c *server.Config) { c.StreamIdleTimeout = 200 * time.Millisecond })
	n.run("web", "sleep infinity", isRunning)
	paths, err := filepath.Glob(filepath.Join(n.logsRoot(), "*", "app", "0.log"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("logs %q, %v", paths, err)
	}
	line := "2026-01-02T03:04:05.000000000Z stdout F " + strings.Repeat("x", 1000) + "\n"
	if err := os.WriteFile(paths[0], []byte(strings.Repeat(line, 16<<10)), 0o600); err != nil { // more than all buffers take
		t.Fatal(err)
	}
	returned := n.watched(t.Context())
	conn := must.Get(n.dial())(t)
	must.Get(io.WriteString(conn, "GET /containerLogs/default/web/app HTTP/1.1\r\nHost: node1\r\n\r\n"))(t)
	wantReturn(t, returned, "log that is not read")
}

// pipes is a listener whose connections have no buffer.
type pipes struct {
	server chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.server:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.IPAddr{} }

// limited notes the deadline of the next write.
type limited struct {
	net.Conn
	mu       sync.Mutex
	deadline time.Time
}

func (l *limited) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	l.deadline = t
	l.mu.Unlock()
	return l.Conn.SetWriteDeadline(t)
}

// askForLog requests the log of a container on an unbuffered connection, and waits until the
// connection reaches a state. It returns the connection's deadline at that time.
func (n *node) askForLog(reads bool, want http.ConnState) time.Time {
	n.Helper()
	states, listener := make(chan http.ConnState, 10), pipes{make(chan net.Conn, 1), make(chan struct{})}
	web := &http.Server{Handler: n.handler, ConnState: func(_ net.Conn, s http.ConnState) { states <- s }}
	var running sync.WaitGroup
	running.Go(func() { _ = web.Serve(listener) })
	caller, theirs := net.Pipe()
	n.Cleanup(func() {
		if err := errors.Join(web.Close(), caller.Close()); err != nil {
			n.Error(err)
		}
		running.Wait()
	})
	conn := &limited{Conn: theirs}
	listener.server <- conn
	must.Get(io.WriteString(caller, "GET /containerLogs/default/over/app HTTP/1.1\r\nHost: node1\r\n\r\n"))(n)
	if reads {
		running.Go(func() { _, _ = io.Copy(io.Discard, caller) })
	}
	patient := time.After(patience)
	for {
		select {
		case state := <-states:
			if state == want {
				conn.mu.Lock()
				defer conn.mu.Unlock()
				return conn.deadline
			}
		case <-patient:
			n.Fatalf("the connection does not become %v", want)
		}
	}
}

// The end of a log, which net/http buffers until the handler has returned, has the idle timeout, too.
func TestEndOfALogThatIsNotRead(t *testing.T) {
	n := newNode(t, func(c *server.Config) { c.StreamIdleTimeout = 200 * time.Millisecond })
	n.run("over", "echo bye; exit 0", isOver)
	n.askForLog(false, http.StateClosed)
}

// The deadline at the end of a log does not apply to the next answer on the connection.
func TestNextAnswerAfterALogHasNoDeadline(t *testing.T) {
	n := newNode(t, nil)
	n.run("over", "echo bye; exit 0", isOver)
	if deadline := n.askForLog(true, http.StateIdle); !deadline.IsZero() {
		t.Errorf("the connection has the deadline %v", deadline)
	}
}

// TestWebSocketThatIsRefused checks that the command of an invalid request does not run.
func TestWebSocketThatIsRefused(t *testing.T) {
	n, b := newNode(t, nil), newBackend(t, 0)
	n.streams = b.url
	n.run("web", "sleep infinity", isRunning)
	for path, protocol := range map[string]string{execPath: closes, "/attach/default/web/app?output=1": closes, "/portForward/default/web": tunnels} {
		for what, header := range map[string]string{
			"a version that is not known": "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
			"no key":                      "Sec-WebSocket-Version: 13\r\n",
		} {
			conn := must.Get(n.dial())(t)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: node1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: %s\r\n%s\r\n", path, protocol, header)
			must.Do(t, conn.SetReadDeadline(time.Now().Add(patience)))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s, %s: %v, %v, want 400", path, what, resp, err)
			}
			if len(b.seen) > 0 {
				t.Errorf("%s, %s: the runtime is asked", path, what)
			}
			conn.Close()
		}
	}
}
