package critest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
	"github.com/podsync/podsync/runtime/websocket"
)

// A caller is the other end of a stream.
type caller struct {
	*testing.T
	ws *websocket.Conn
}

// connect connects to the URL of a stream.
func (n *node) connect(location string, protocols ...string) caller {
	n.Helper()
	ws, err := n.tryConnect(location, protocols...)
	n.ok(err)
	n.Cleanup(func() { ws.Close() })
	return caller{n.T, ws}
}

func (n *node) tryConnect(location string, protocols ...string) (*websocket.Conn, error) {
	n.Helper()
	u, err := url.Parse(location)
	n.ok(err)
	conn, err := n.DialStream(n.Context(), "tcp", u.Host+":80")
	n.ok(err)
	req, err := http.NewRequest("GET", location, nil)
	n.ok(err)
	ws, _, err := websocket.Dial(conn, req, protocols...)
	return ws, err
}

func (c caller) send(channel byte, text string) {
	c.Helper()
	if err := c.ws.Write([]byte{channel}, []byte(text)); err != nil {
		c.Fatal(err)
	}
}

// rest returns all further output by channel, until the end.
func (c caller) rest() map[byte]string {
	c.Helper()
	said := map[byte]string{}
	for {
		message, err := c.ws.Read()
		if err != nil {
			return said
		}
		said[message[0]] += string(message[1:])
	}
}

func (c caller) want(channel byte, text string) {
	c.Helper()
	message, err := c.ws.Read()
	if err != nil || message[0] != channel || string(message[1:]) != text {
		c.Fatalf("%q, %v, want %q", message, err, text)
	}
}

func (n *node) exec(id string, req *runtimeapi.ExecRequest) caller {
	n.Helper()
	req.ContainerId = id
	resp, err := n.rt.Exec(n.Context(), req)
	n.ok(err)
	return n.connect(resp.Url, "v5.channel.k8s.io", "v4.channel.k8s.io")
}

// exitCode reads the error channel as client-go does.
func exitCode(t *testing.T, text string) string {
	t.Helper()
	var st metav1.Status
	if err := json.Unmarshal([]byte(text), &st); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	switch {
	case st.Status == metav1.StatusSuccess:
		return "0"
	case st.Reason == "NonZeroExitCode" && st.Details.Causes[0].Type == "ExitCode":
		return st.Details.Causes[0].Message
	}
	return st.Message
}

func TestExec(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("u", "sleep", "infinity")
		for _, tt := range []struct {
			req             *runtimeapi.ExecRequest
			stdin           string
			out, errs, code string
		}{
			{&runtimeapi.ExecRequest{Cmd: []string{"echo", "a"}, Stdout: true}, "", "a\n", "", "0"},
			{&runtimeapi.ExecRequest{Cmd: []string{"sh", "-c", "echo a; echo b >&2; exit 3"}, Stdout: true, Stderr: true}, "", "a\n", "b\n", "3"},
			{&runtimeapi.ExecRequest{Cmd: []string{"sh", "-c", "echo a; echo b >&2"}, Stderr: true}, "", "", "b\n", "0"},
			{&runtimeapi.ExecRequest{Cmd: []string{"sh", "-c", "echo a; echo b >&2"}, Stdout: true, Tty: true}, "", "a\r\nb\r\n", "", "0"},
			{&runtimeapi.ExecRequest{Cmd: []string{"cat"}, Stdin: true, Stdout: true}, "hello", "hello", "", "0"},
			{&runtimeapi.ExecRequest{Cmd: []string{"cat"}, Stdout: true}, "", "", "", "0"},
			{&runtimeapi.ExecRequest{Cmd: []string{"sh"}, Stdin: true, Stdout: true, Stderr: true}, "echo a\nfor i in b c\ndo echo $i; done\nexit 7\necho never\n", "a\nb\nc\n", "", "7"},
			{&runtimeapi.ExecRequest{Cmd: []string{"sh"}, Stdin: true, Stdout: true, Stderr: true}, "echo a\n)\necho never\n", "a\n", "sh: syntax error", "2"},
			{&runtimeapi.ExecRequest{Cmd: []string{"none"}, Stdout: true}, "", "", "", `failed to exec in container: failed to start exec: exec: "none": executable file not found in $PATH`},
		} {
			c := n.exec(id, tt.req)
			if tt.req.Stdin {
				c.send(streams.Stdin, tt.stdin)
				c.send(streams.Close, "\x00")
			}
			said := c.rest()
			if said[streams.Stdout] != tt.out || !strings.HasPrefix(said[streams.Stderr], tt.errs) || exitCode(t, said[streams.Error]) != tt.code {
				t.Errorf("%v: %q, want %v and it to begin with %v and %v", tt.req, said, tt.out, tt.errs, tt.code)
			}
		}
	})
}

func TestExecEnds(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("u", "sleep", "infinity")
		forever := func() caller {
			return n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"sh", "-c", "trap '' TERM; cat; sleep infinity"}, Stdin: true, Stdout: true})
		}
		gone, stays := forever(), forever()
		gone.ws.Close() // the runtime kills its process
		synctest.Wait()
		stays.send(streams.Stdin, "still there")
		stays.want(streams.Stdout, "still there")
		n.ok(n.stopIt(n.Context(), id, 0))
		if code := exitCode(t, stays.rest()[streams.Error]); code != "137" {
			t.Errorf("it ended with %s", code)
		}
		if left := time.Now(); left.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) > time.Second {
			t.Errorf("it took until %v", left)
		}
	})
}

// TestExecSizes: a program receives the size of its terminal.
func TestExecSizes(t *testing.T) {
	top := func(ctx context.Context, c *Command) int {
		for {
			select {
			case size := <-c.Sizes:
				fmt.Fprintf(c.Stdout, "%t %d x %d", c.TTY, size.Width, size.Height)
			case <-ctx.Done():
				return 0
			}
		}
	}
	onBubble(t, Config{Programs: map[string]Program{"top": top}}, func(n *node) {
		_, id := n.runs("u", "sleep", "infinity")
		c := n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"top"}, Stdin: true, Stdout: true, Tty: true})
		c.send(streams.Resize, "{")
		c.send(streams.Resize, `{"Width":80,"Height":25}`)
		c.want(streams.Stdout, "true 80 x 25")
	})
}

// shell starts a shell that reads its stdin, in a pod of its own. It returns the ID of the container.
func (n *node) shell(config *runtimeapi.ContainerConfig) string {
	sandbox := n.newSandbox("u")
	config.Metadata, config.Image = &runtimeapi.ContainerMetadata{Name: "app"}, &runtimeapi.ImageSpec{Image: "app"}
	config.Command, config.Stdin = []string{"sh"}, true
	resp, err := n.rt.CreateContainer(n.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: podConfig("u"), Config: config,
	})
	n.ok(err)
	n.ok(n.startIt(resp.ContainerId))
	return resp.ContainerId
}

func TestAttach(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		id := n.shell(&runtimeapi.ContainerConfig{StdinOnce: true})
		attach := func(req *runtimeapi.AttachRequest) caller {
			req.ContainerId = id
			attached, err := n.rt.Attach(n.Context(), req)
			n.ok(err)
			return n.connect(attached.Url, "v4.channel.k8s.io")
		}
		deaf := attach(&runtimeapi.AttachRequest{Stderr: true})
		writer := attach(&runtimeapi.AttachRequest{Stdin: true, Stdout: true, Stderr: true})
		synctest.Wait()
		writer.send(streams.Stdin, "echo one\necho two >&2\n")
		writer.want(streams.Stdout, "one\n")
		deaf.want(streams.Stderr, "two\n")
		writer.want(streams.Stderr, "two\n")
		writer.ws.Close() // ends the input of the container for good
		if said := deaf.rest(); exitCode(t, said[streams.Error]) != "0" {
			t.Errorf("%q, want %q", said, "0")
		}
		synctest.Wait()
		if st, err := n.inspect(id); err != nil || st.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			t.Errorf("%v, %v, want %v and no error", st, err, runtimeapi.ContainerState_CONTAINER_EXITED)
		}
	})
}

// hello greets each connection to port 80 by name.
func hello(ctx context.Context, c *Command) int {
	lis, err := c.Listen(80)
	if err != nil {
		fmt.Fprintln(c.Stderr, err)
		return 1
	}
	context.AfterFunc(ctx, func() { lis.Close() })
	for {
		conn, err := lis.Accept()
		if err != nil {
			return 0
		}
		name, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprintf(conn, "hello %s", name)
		conn.Close()
	}
}

func TestPortForward(t *testing.T) {
	onBubble(t, Config{Programs: map[string]Program{"hello": hello}}, func(n *node) {
		sandbox, _ := n.runs("u", "hello")
		synctest.Wait()
		resp, err := n.rt.PortForward(n.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: []int32{80, 81}})
		n.ok(err)
		c := n.connect(resp.Url, "v4.channel.k8s.io")
		c.send(0, "you\n")
		number := func(port uint16) string { return string(binary.LittleEndian.AppendUint16(nil, port)) }
		said := c.rest()
		if said[0] != number(80)+"hello you\n" || said[1] != number(80) || said[2] != number(81) ||
			!strings.HasPrefix(said[3], number(81)+"error forwarding port 81") || !strings.Contains(said[3], "connection refused") {
			t.Errorf("%q, want %v and %v and %v and it to begin with %v and %q in it", said, number(80)+"hello you\n", number(80), number(81), number(81)+"error forwarding port 81", "connection refused")
		}
	})
}

func TestListen(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox := n.sandbox(n.newSandbox("u"))
		lis, err := n.listen(sandbox, 80)
		n.ok(err)
		for _, port := range []int32{0, -1, 65536, 80} {
			if _, err := n.listen(sandbox, port); err == nil {
				t.Errorf("port %d is listened on", port)
			}
		}
		n.ok(lis.Close())
		lis, err = n.listen(sandbox, 80)
		n.ok(err)
		n.ok(lis.Close())
	})
}

func TestStreamsThatAreRefused(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		sandbox, id := n.runs("u", "sleep", "infinity")
		exec := func(req *runtimeapi.ExecRequest) error { _, err := n.rt.Exec(n.Context(), req); return err }
		attach := func(req *runtimeapi.AttachRequest) error { _, err := n.rt.Attach(n.Context(), req); return err }
		forward := func(id string) error {
			_, err := n.rt.PortForward(n.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: id})
			return err
		}
		n.code(exec(&runtimeapi.ExecRequest{ContainerId: "none", Cmd: []string{"a"}, Stdout: true}), codes.NotFound)
		n.code(exec(&runtimeapi.ExecRequest{ContainerId: id, Stdout: true}), codes.InvalidArgument)
		n.code(exec(&runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"a"}}), codes.InvalidArgument)
		n.code(exec(&runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"a"}, Tty: true, Stderr: true}), codes.InvalidArgument)
		n.code(attach(&runtimeapi.AttachRequest{ContainerId: "none", Stdout: true}), codes.NotFound)
		n.code(attach(&runtimeapi.AttachRequest{ContainerId: id}), codes.InvalidArgument)
		n.code(forward("none"), codes.NotFound)

		resp, err := n.rt.Exec(n.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"echo"}, Stdout: true})
		n.ok(err)
		if _, err := n.tryConnect(resp.Url, "spdy"); err == nil {
			t.Error("another protocol is spoken")
		}
		if _, err := n.tryConnect(resp.Url, "v4.channel.k8s.io"); err == nil {
			t.Error("a URL leads to a stream twice")
		}
		if _, err := n.DialStream(n.Context(), "tcp", "registry.test:80"); err == nil {
			t.Error("another host is reached")
		}

		n.ok(n.stopIt(n.Context(), id, 0))
		n.code(exec(&runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"a"}, Stdout: true}), codes.Unknown)
		_, err = n.rt.StopPodSandbox(n.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox})
		n.ok(err)
		n.code(forward(sandbox), codes.Unavailable)
	})
}

// TestCloseEndsStreams: Close ends streams whether or not the client reads, or has sent anything.
func TestCloseEndsStreams(t *testing.T) {
	onBubble(t, Config{}, func(n *node) {
		_, id := n.runs("u", "sleep", "infinity")
		n.exec(id, &runtimeapi.ExecRequest{Cmd: []string{"sh", "-c", "while true; do echo noise; done"}, Stdout: true})
		resp, err := n.rt.Exec(n.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"echo"}, Stdout: true})
		n.ok(err)
		u, err := url.Parse(resp.Url)
		n.ok(err)
		conn, err := n.DialStream(n.Context(), "tcp", net.JoinHostPort(u.Host, "80"))
		n.ok(err)
		defer conn.Close()
		time.Sleep(time.Second)
		n.ok(n.Close())
		if _, err := io.ReadAll(conn); err != nil {
			t.Error(err)
		}
	})
}
