package clients

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// An executor is one of the two that kubectl has.
type executor func(c *rest.Config, path string) (remotecommand.Executor, error)

func overSPDY(c *rest.Config, path string) (remotecommand.Executor, error) {
	u, err := url.Parse(c.Host + path)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutor(c, http.MethodPost, u)
}

func overWebSocket(c *rest.Config, path string) (remotecommand.Executor, error) {
	return remotecommand.NewWebSocketExecutor(c, http.MethodGet, c.Host+path)
}

func execPath(script string, options string) string {
	return "/exec/default/web/app?" + url.Values{"command": {"sh", "-c", script}}.Encode() + "&" + options
}

// nodes returns the nodes that support SPDY, as runtimes do.
func nodes(t *testing.T) map[string]func(*testing.T) *node {
	all := map[string]func(*testing.T) *node{"critest": inMemory, "streaming server": withSPDY, "functions in process": inProcess}
	maps.Copy(all, onRuntimes(t))
	return all
}

// TestExec: over SPDY, and over a WebSocket in a protocol that no runtime supports.
func TestExec(t *testing.T) {
	for name, node := range nodes(t) {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			n.run(t, "sleep", "1000")
			t.Run("SPDY", func(t *testing.T) { testExec(t, n, overSPDY) })
			t.Run("WebSocket", func(t *testing.T) { testExec(t, n, overWebSocket) })
		})
	}
}

func testExec(t *testing.T, n *node, through executor) {
	run := func(script, options string, streams remotecommand.StreamOptions) error {
		t.Helper()
		e := must.Get(through(n.config, execPath(script, options)))(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return e.StreamWithContext(ctx, streams)
	}

	// The end of the input arrives, and everything sent before is returned.
	input := strings.Repeat("0123456789abcdef\n", 64<<10)
	var out, errOut bytes.Buffer
	err := run(copies, "input=1&output=1", remotecommand.StreamOptions{Stdin: strings.NewReader(input), Stdout: &out})
	if err != nil || out.String() != input {
		t.Errorf("cat: %d bytes of %d, %v", out.Len(), len(input), err)
	}

	// So do both outputs, and the exit code.
	out.Reset()
	err = run(fails, "output=1&error=1", remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut})
	var code exec.CodeExitError
	if !errors.As(err, &code) || code.Code != 7 || out.String() != "out\n" || errOut.String() != "err\n" {
		t.Errorf("exit 7: %q, %q, %v, want exit code 7, output %q and error output %q", &out, &errOut, err, "out\n", "err\n")
	}
}

// A caller without a token gets no stream.
func TestExecOfAStranger(t *testing.T) {
	n := withSPDY(t)
	n.run(t, "sleep", "1000")
	stranger := rest.AnonymousClientConfig(n.config)
	for name, through := range map[string]executor{"SPDY": overSPDY, "WebSocket": overWebSocket} {
		e, err := through(stranger, execPath(copies, "output=1"))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out})
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "unauthorized") {
			t.Errorf("%s: %v, want an error and %q in it", name, err, "unauthorized")
		}
	}
}

// A forwarder forwards a port over one of the two protocols that kubectl has for that.
type forwarder func(c *rest.Config, u *url.URL, stop, ready chan struct{}) (*portforward.PortForwarder, error)

var (
	onLocalhost = []string{"127.0.0.1"}
	toPort      = []string{":" + strconv.Itoa(port)}
)

func portsOverSPDY(c *rest.Config, u *url.URL, stop, ready chan struct{}) (*portforward.PortForwarder, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c)
	if err != nil {
		return nil, err
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	return portforward.NewOnAddresses(dialer, onLocalhost, toPort, stop, ready, io.Discard, io.Discard)
}

func portsOverWebSocket(c *rest.Config, u *url.URL, stop, ready chan struct{}) (*portforward.PortForwarder, error) {
	dialer, err := portforward.NewSPDYOverWebsocketDialer(u, c)
	if err != nil {
		return nil, err
	}
	return portforward.NewOnAddresses(dialer, onLocalhost, toPort, stop, ready, io.Discard, io.Discard)
}

func TestPortForward(t *testing.T) {
	for name, node := range nodes(t) {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			pod := n.pod("web", "httpd", "-f", "-p", strconv.Itoa(port), "-h", "/tmp")
			pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{
				ProbeHandler:  v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(port)}},
				PeriodSeconds: 1,
			}
			n.start(t, pod)
			t.Run("SPDY", func(t *testing.T) { testPortForward(t, n, portsOverSPDY) })
			t.Run("WebSocket", func(t *testing.T) { testPortForward(t, n, portsOverWebSocket) })
		})
	}
}

func testPortForward(t *testing.T, n *node, through forwarder) {
	u := must.Get(url.Parse(n.config.Host + "/portForward/default/web"))(t)
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forward := must.Get(through(n.config, u, stop, ready))(t)
	go func() { ended <- forward.ForwardPorts() }()
	defer func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports := must.Get(forward.GetPorts())(t)
	for range 3 {
		if line := ask(t, ports[0].Local); !strings.HasPrefix(line, "HTTP/1.") || !strings.Contains(line, " 404 ") {
			t.Errorf("%q, want it to begin with %q and %q in it", line, "HTTP/1.", " 404 ")
		}
	}
}

// ask requests a path that does not exist from a port of this machine, and returns the first line of the
// response.
func ask(t *testing.T, port uint16) string {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /none HTTP/1.0\r\n\r\n"); err != nil {
		t.Error(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	return line
}
