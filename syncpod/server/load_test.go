package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/websocket"
	"github.com/podsync/podsync/syncpod/server"
)

// loaded is a node whose streams are the runtime's own.
func loaded(t *testing.T) *node {
	return newNode(t, func(c *server.Config) {
		own := c.Client.RuntimeServiceClient.(streaming)
		c.Client, c.StreamTransport = own.node.Client, &http.Transport{DialContext: own.node.DialStream, DisableKeepAlives: true}
	})
}

// dial connects to the server, with small receive buffers.
func (n *node) dial() (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(n.Context(), "tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		return nil, err
	}
	n.Cleanup(func() { conn.Close() })
	return conn, errors.Join(conn.(*net.TCPConn).SetReadBuffer(16<<10), conn.SetDeadline(time.Now().Add(loadPatience)))
}

// execute runs cat in the container, and has it repeat something.
func (n *node) execute(i int) error {
	conn, err := n.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	req, err := http.NewRequest("GET", n.url+"/exec/default/web/app?command=cat&input=1&output=1", nil)
	if err != nil {
		return err
	}
	ws, _, err := websocket.Dial(conn, req, "v5.channel.k8s.io")
	if err != nil {
		return err
	}
	for line := range 20 {
		want := fmt.Sprintf("%d %d", i, line)
		if err := ws.Write([]byte("\x00" + want)); err != nil {
			return err
		}
		if got, err := ws.Read(); err != nil || string(got) != "\x01"+want {
			return fmt.Errorf("%q, want %q: %w", got, want, err)
		}
	}
	return nil
}

// follow begins to follow the log of a pod's container. The answer has begun.
func (n *node) follow(t *testing.T, pod, query string) (net.Conn, *http.Response) {
	t.Helper()
	conn := must.Get(n.dial())(t)
	fmt.Fprintf(conn, "GET /containerLogs/%s/app?follow=true&%s HTTP/1.1\r\nHost: node1\r\n\r\n", pod, query)
	resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	return conn, resp
}

// inUse is the memory that is in use, stacks included, and how many goroutines there are.
func inUse() (bytes uint64, goroutines int) {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, goruntime.NumGoroutine()
}

const (
	execs, followers, deaf = 100, 200, 10
	// loadPatience is the time limit of the whole load on a busy machine.
	loadPatience = 2 * time.Minute
	// perStream is the maximum memory of a stream, including the caller and the runtime in
	// memory, because all run in this process.
	perStream = 128 << 10
)

// followed are the pods whose logs are followed: more than one, as a pod has a limit of streams.
var followed = []string{"other/one", "other/two"}

// TestLoad runs 100 commands and 200 log followers concurrently, and ten more of each kind that never
// read. The others get all their output, the memory of each is bounded,
// and nothing is left after they have left, even after repetitions.
func TestLoad(t *testing.T) {
	n := loaded(t)
	for _, pod := range append([]string{"default/web"}, followed...) {
		namespace, name, _ := strings.Cut(pod, "/")
		n.runIn(namespace, name, "echo begun; while true; do sleep 0.02; test -e /go && echo line; done", isRunning)
	}
	n.want("POST", "/run/default/web/app?cmd=true", 200, "")
	first := n.load(t, math.MaxUint64)
	n.load(t, first+1<<20) // the runtime in memory remembers calls
}

// load starts and ends all callers. It returns the memory in use afterwards, once it is below a
// limit.
func (n *node) load(t *testing.T, limit uint64) uint64 {
	t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before, goroutines := inUse()
	var conns []net.Conn
	var lines []*bufio.Reader
	for i := range followers {
		conn, resp := n.follow(t, followed[i%len(followed)], "tailLines=1")
		conns, lines = append(conns, conn), append(lines, bufio.NewReader(resp.Body))
	}
	for range deaf {
		conn, _ := n.follow(t, "default/web", "")
		conns = append(conns, conn, n.deaf(t))
	}
	n.executeAll(t)
	for _, pod := range followed {
		n.want("POST", "/run/"+pod+"/app?cmd=touch+/go", 200, "")
	}
	for i, r := range lines {
		for line := ""; line != "line\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatalf("follower %d: %v", i, err)
			}
		}
	}
	if after, _ := inUse(); after > before+(execs+followers+2*deaf)*perStream {
		t.Errorf("%d KiB are in use, and were %d", after>>10, before>>10)
	}
	for _, c := range conns {
		c.Close()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for deadline := time.Now().Add(loadPatience); ; time.Sleep(20 * time.Millisecond) {
		after, left := inUse()
		if left <= goroutines+1 && after <= limit { // the runtime's streaming server is started by the first stream
			return after
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d KiB and %d goroutines are left, and there were %d:\n%s", after>>10, left, goroutines, stacks[:goruntime.Stack(stacks, true)])
		}
	}
}

// executeAll runs all commands at once.
func (n *node) executeAll(t *testing.T) {
	t.Helper()
	failed := make(chan error, execs)
	for i := range execs {
		go func() { failed <- n.execute(i) }()
	}
	for range execs {
		must.Do(t, <-failed)
	}
}

// deaf has a command print for ever, and never reads it.
func (n *node) deaf(t *testing.T) net.Conn {
	t.Helper()
	conn := must.Get(n.dial())(t)
	req := must.Get(http.NewRequest("GET", n.url+"/exec/default/web/app?command=sh&command=-c&command=while+true%3B+do+echo+0123456789abcdef%3B+done&output=1", nil))(t)
	if _, _, err := websocket.Dial(conn, req, "v5.channel.k8s.io"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestFollowOverARestart checks that a log is followed while the runtime is unavailable if the containers keep
// running, and to its end otherwise.
func TestFollowOverARestart(t *testing.T) {
	n := loaded(t)
	n.run("web", "echo one; until test -e /go; do sleep 0.02; done; echo two; sleep infinity", isRunning)
	conn, resp := n.follow(t, "default/web", "")
	defer conn.Close()
	lines := bufio.NewReader(resp.Body)
	want := func(line string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || got != line {
			t.Fatalf("%q, %v, want %q", got, err, line)
		}
	}
	want("one\n")
	must.Do(t, n.Restart(faults.Restart{Down: 200 * time.Millisecond, Disconnect: true}))
	n.wait(func() bool {
		code, _ := n.ask("POST", "/run/default/web/app?cmd=touch+/go")
		return code == 200
	})
	want("two\n")
	must.Do(t, n.Restart(faults.Restart{Down: 200 * time.Millisecond, Disconnect: true, Sandboxes: faults.EffectStopped, Containers: faults.EffectStopped}))
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v, want nothing", rest, err)
	}
}

// TestFollowOfARuntimeThatStaysUnavailable ends with the caller.
func TestFollowOfARuntimeThatStaysUnavailable(t *testing.T) {
	n := loaded(t)
	n.run("web", "echo one; sleep infinity", isRunning)
	conn, resp := n.follow(t, "default/web", "")
	defer conn.Close()
	must.Do(t, n.Restart(faults.Restart{Down: time.Hour, Disconnect: true}))
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "one\n" {
		t.Errorf("%q, %v, want %q and no error", line, err, "one\n")
	}
	ctx, cancel := context.WithTimeout(n.Context(), patience)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, "GET", n.url+"/containerLogs/default/web/app?follow=true", nil))(t)
	other := must.Get(http.DefaultClient.Do(req))(t)
	defer other.Body.Close()
	if other.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("who comes now is answered %s", other.Status)
	}
}
