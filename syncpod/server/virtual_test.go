package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/runtime/websocket"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
)

// greeter sends hello to each connection to port 80, and closes it. It echoes input on
// port 81, and prints a line each second.
func greeter(ctx context.Context, c *critest.Command) int {
	lis, err := c.Listen(80)
	if err != nil {
		return 1
	}
	defer context.AfterFunc(ctx, func() { lis.Close() })()
	echo, err := c.Listen(81)
	if err != nil {
		return 1
	}
	defer echo.Close() // the other listener may end this before the context ends that one
	defer context.AfterFunc(ctx, func() { echo.Close() })()
	go repeat(ctx, echo)
	go tick(ctx, c.Stdout)
	for {
		conn, err := lis.Accept()
		if err != nil {
			return 0
		}
		_, _ = io.WriteString(conn, "hello") // the caller may have left
		conn.Close()
	}
}

func repeat(ctx context.Context, lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn) // until one of them goes
		}()
	}
}

func tick(ctx context.Context, out io.Writer) {
	for ctx.Err() == nil {
		fmt.Fprintln(out, "tick")
		_ = pause(ctx)
	}
}

func pause(ctx context.Context) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// inBubble runs an agent and its server in memory and in virtual time. A goroutine that
// is left at the end fails the test.
func inBubble(t *testing.T, test func(t *testing.T, rt *critest.Runtime, dial func(path string, protocols ...string) *websocket.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{Programs: map[string]critest.Program{"greeter": greeter}})
		client, pods := cri.NewClient(conn), source.NewPush()
		agent := must.Get(agent.New(agent.Config{
			Client: client, Sources: []source.Source{pods}, Sync: syncpod.Config{RuntimeName: "critest"},
			NoEviction: true, // the disk is the machine's, which pods in memory do not fill
		}))(t)
		transport := &http.Transport{DialContext: rt.DialStream, DisableKeepAlives: true}
		handler := must.Get(server.New(server.Config{Agent: agent, Client: client, Authenticator: everybody{}, Authorizer: everybody{}, StreamTransport: transport}))(t)
		lis := bufconn.Listen(1 << 16)
		web := &http.Server{Handler: handler}
		go func() { _ = web.Serve(lis) }() // until Close
		t.Cleanup(func() { web.Close() })
		go func() {
			if err := agent.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		must.Do(t, pods.Set(podtest.Pod("web", podtest.Container("app", func(c *v1.Container) { c.Command = []string{"greeter"} }))))
		synctest.Wait()
		test(t, rt, func(path string, protocols ...string) *websocket.Conn { return dialIn(t, lis, path, protocols...) })
	})
}

func dialIn(t *testing.T, lis *bufconn.Listener, path string, protocols ...string) *websocket.Conn {
	t.Helper()
	conn := must.Get(lis.DialContext(t.Context()))(t)
	req := must.Get(http.NewRequest("GET", "http://node1"+path, nil))(t)
	ws, _, err := websocket.Dial(net.Conn(conn), req, protocols...)
	must.Do(t, err)
	t.Cleanup(func() { ws.Close() })
	return ws
}

// allOf reads a stream to its end, by channel.
func allOf(ws *websocket.Conn) map[byte]string {
	said := map[byte]string{}
	for {
		message, err := ws.Read()
		if err != nil {
			return said
		}
		said[message[0]] += string(message[1:])
	}
}

func TestExecEndToEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *critest.Runtime, dial func(string, ...string) *websocket.Conn) {
		began := time.Now()
		ws := dial("/exec/default/web/app?command=sh&input=1&output=1&error=1", "v5.channel.k8s.io")
		for _, message := range []string{"\x00echo one; echo two >&2\n", "\x00sleep 60; exit 3\n", "\xff\x00"} {
			must.Do(t, ws.Write([]byte(message)))
		}
		said := allOf(ws)
		if said[1] != "one\n" || said[2] != "two\n" || !strings.Contains(said[3], `"reason":"ExitCode","message":"3"`) {
			t.Errorf("%q, want %q and %q and %q in it", said, "one\n", "two\n", `"reason":"ExitCode","message":"3"`)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v, want %v", took, time.Minute)
		}
	})
}

// TestCallerStays: the connection of a caller that does not close it after a process's end is closed.
func TestCallerStays(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *critest.Runtime, dial func(string, ...string) *websocket.Conn) {
		ws := dial("/exec/default/web/app?command=true&output=1", "v5.channel.k8s.io")
		if said := allOf(ws); !strings.Contains(said[3], "Success") {
			t.Errorf("%q, want %q in it", said, "Success")
		}
		began := time.Now()
		if _, err := ws.Read(); err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v, want the end after 10s", err, time.Since(began))
		}
	})
}

func TestPortForwardEndToEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *critest.Runtime, dial func(string, ...string) *websocket.Conn) {
		said := allOf(dial("/portForward/default/web?port=80", "v4.channel.k8s.io"))
		if said[0] != "\x50\x00hello" || said[1] != "\x50\x00" {
			t.Errorf("%q, want %q and %q", said, "\x50\x00hello", "\x50\x00")
		}
	})
}

// TestRuntimeDiesInMidStream checks that the stream ends at once, and that the process is not reported
// as successful. After its restart, the runtime serves streams again.
func TestRuntimeDiesInMidStream(t *testing.T) {
	for name, stream := range map[string]struct{ path, protocol, send, heard string }{
		"exec":         {"/exec/default/web/app?command=sh&command=-c&command=echo+begun%3B+sleep+1000&input=1&output=1&error=1", "v5.channel.k8s.io", "", "\x01begun\n"},
		"exec, old":    {"/exec/default/web/app?command=cat&input=1&output=1", "v4.channel.k8s.io", "\x00begun", "\x01begun"},
		"exec, input":  {"/exec/default/web/app?command=cat&input=1&output=1", "v5.channel.k8s.io", "\x00begun", "\x01begun"},
		"exec, tty":    {"/exec/default/web/app?command=cat&input=1&output=1&tty=1", "v4.channel.k8s.io", "\x00begun", "\x01begun"},
		"attach":       {"/attach/default/web/app?output=1&error=1", "v4.channel.k8s.io", "", "\x01tick\n"},
		"port-forward": {"/portForward/default/web?port=81", "v4.channel.k8s.io", "\x00begun", "\x00begun"},
	} {
		for _, end := range []string{"restart", "end"} {
			t.Run(name+", "+end, func(t *testing.T) {
				inBubble(t, func(t *testing.T, rt *critest.Runtime, dial func(string, ...string) *websocket.Conn) {
					ws := dial(stream.path, stream.protocol)
					hear(t, ws, stream.send, stream.heard)
					began := time.Now()
					die := func() error { return rt.Restart(faults.Restart{Down: 10 * time.Second, Disconnect: true}) }
					if end == "end" {
						die = rt.Close
					}
					must.Do(t, die())
					if said := allOf(ws); said[3] != "" || time.Since(began) != 0 {
						t.Errorf("%q after %v, want %q and 0", said, time.Since(began), "")
					}
					if end == "end" {
						return
					}
					time.Sleep(30 * time.Second)
					hear(t, dial(stream.path, stream.protocol), stream.send, stream.heard)
				})
			})
		}
	}
}

// hear sends a message, if any, and reads until a message arrives.
func hear(t *testing.T, ws *websocket.Conn, send, heard string) {
	t.Helper()
	if send != "" {
		must.Do(t, ws.Write([]byte(send)))
	}
	for {
		message := must.Get(ws.Read())(t)
		if string(message) == heard {
			return
		}
	}
}

// TestManyStreams: none holds up another, and none is left.
func TestManyStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *critest.Runtime, dial func(string, ...string) *websocket.Conn) {
		var all []*websocket.Conn
		for range 100 {
			all = append(all, dial("/exec/default/web/app?command=cat&input=1&output=1", "v5.channel.k8s.io"))
		}
		for i, ws := range all {
			must.Do(t, ws.Write(fmt.Appendf(nil, "\x00%d", i)))
			if got, err := ws.Read(); err != nil || string(got) != fmt.Sprintf("\x01%d", i) {
				t.Errorf("%q, %v, want %v and no error", got, err, fmt.Sprintf("\x01%d", i))
			}
		}
	})
}
