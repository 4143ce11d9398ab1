package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
)

// patience is the maximum time for which a test waits for an expected event.
const patience = time.Minute

// A node is an agent whose server accepts everyone who has the token.
type node struct {
	config *rest.Config
	agent  *agent.Agent
	pods   *source.Push
	image  string
	uid    types.UID
}

type token string

func (t token) AuthenticateRequest(r *http.Request) (server.User, bool, error) {
	return server.User{Name: "ann"}, r.Header.Get("Authorization") == "Bearer "+string(t), nil
}

func (token) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return true, "", nil
}

// inMemory returns a node on critest.
func inMemory(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	rt, conn := critest.Start(t, critest.Config{LogsRoot: filepath.Join(dir, "logs"), Programs: map[string]critest.Program{"httpd": httpd}})
	client := cri.NewClient(conn)
	transport := &http.Transport{DialContext: rt.DialStream, DisableKeepAlives: true}
	return serve(t, client, server.Config{Client: client, StreamTransport: transport}, "registry.test/app:1", dir)
}

// withSPDY returns a node on critest whose streams are served by k8s.io/cri-streaming, as in containerd and
// CRI-O.
func withSPDY(t *testing.T) *node {
	t.Helper()
	_, conn := critest.Start(t, critest.Config{Programs: map[string]critest.Program{"httpd": httpd}})
	client := cri.NewClient(conn)
	lis := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: lis.Addr().String()}
	streams := must.Get(streaming.NewServer(config, process{}))(t)
	web := &http.Server{Handler: streams}
	go func() { _ = web.Serve(lis) }() // until Close
	t.Cleanup(func() { web.Close() })
	return serve(t, client, server.Config{Client: withStreams(client, streams)}, "registry.test/app:1", t.TempDir())
}

// otherStreams is a runtime with another streaming server.
type otherStreams struct {
	runtimeapi.RuntimeServiceClient
	streams streaming.Server
}

func withStreams(client *cri.Client, streams streaming.Server) *cri.Client {
	return &cri.Client{RuntimeServiceClient: otherStreams{client, streams}, ImageServiceClient: client}
}

// inProcess returns a node on critest whose streams are served by functions in the same process.
func inProcess(t *testing.T) *node {
	t.Helper()
	_, conn := critest.Start(t, critest.Config{Programs: map[string]critest.Program{"httpd": httpd}})
	client := cri.NewClient(conn)
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: "in-process"}
	streams := must.Get(streaming.NewServer(config, process{}))(t)
	return serve(t, client, server.Config{Client: withStreams(client, streams), StreamTransport: server.HandlerTransport(streams)},
		"registry.test/app:1", t.TempDir())
}

func (s otherStreams) Exec(_ context.Context, req *runtimeapi.ExecRequest, _ ...grpc.CallOption) (*runtimeapi.ExecResponse, error) {
	return s.streams.GetExec(req)
}

func (s otherStreams) Attach(_ context.Context, req *runtimeapi.AttachRequest, _ ...grpc.CallOption) (*runtimeapi.AttachResponse, error) {
	return s.streams.GetAttach(req)
}

func (s otherStreams) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest, _ ...grpc.CallOption) (*runtimeapi.PortForwardResponse, error) {
	return s.streams.GetPortForward(req)
}

// process runs the scripts of these tests behind that server.
type process struct{}

func (process) Exec(_ context.Context, _ string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	switch script := command[len(command)-1]; {
	case script == copies:
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
		return nil
	case script == fails:
		fmt.Fprintln(out, "out")
		fmt.Fprintln(errOut, "err")
		return utilexec.CodeExitError{Err: errors.New("exit"), Code: 7}
	}
	return errors.New("no such script")
}

func (process) Attach(_ context.Context, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	_, err := io.Copy(out, in)
	return err
}

func (process) PortForward(_ context.Context, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	answer(stream)
	return nil
}

// answer writes the response of the server on the pod's port.
func answer(conn io.Writer) { fmt.Fprint(conn, "HTTP/1.0 404 Not Found\r\n\r\n") }

func httpd(ctx context.Context, c *critest.Command) int {
	lis, err := c.Listen(port)
	if err != nil {
		return 1
	}
	defer context.AfterFunc(ctx, func() { lis.Close() })()
	for {
		conn, err := lis.Accept()
		if err != nil {
			return 0
		}
		answer(conn)
		conn.Close()
	}
}

// onRuntimes returns the nodes on the endpoints of PODSYNC_E2E.
func onRuntimes(t *testing.T) map[string]func(*testing.T) *node {
	t.Helper()
	nodes := map[string]func(*testing.T) *node{}
	for endpoint := range strings.SplitSeq(os.Getenv("PODSYNC_E2E"), ",") {
		if endpoint == "" {
			continue
		}
		nodes[endpoint] = func(t *testing.T) *node {
			client := must.Get(cri.Dial(t.Context(), cri.Config{Endpoint: endpoint}))(t)
			t.Cleanup(func() { client.Close() })
			return serve(t, client, server.Config{Client: client}, "localhost/busybox:e2e", t.TempDir())
		}
	}
	return nodes
}

// serve runs an agent and its server until the test ends, when its pods are stopped.
func serve(t *testing.T, client *cri.Client, config server.Config, image, dir string) *node {
	t.Helper()
	n := &node{pods: source.NewPush(), image: image, uid: types.UID(fmt.Sprintf("uid-%x", time.Now().UnixNano()))}
	c := agent.Config{
		Client: client, Sources: []source.Source{n.pods}, Root: filepath.Join(dir, "root"), NoEviction: true, NoImageGC: true,
		Sync: syncpod.Config{Node: syncpod.Node{LogsRoot: filepath.Join(dir, "logs")}, Owner: cri.Owner{Name: "clients"}},
	}
	if image == "registry.test/app:1" {
		c.Sync.RuntimeName = "critest"
	}
	n.agent = must.Get(agent.New(c))(t)
	config.Agent, config.NodeName = n.agent, "node1"
	config.Authenticator, config.Authorizer = token("secret"), token("")
	handler := must.Get(server.New(config))(t)
	web := httptest.NewTLSServer(handler)
	n.config = &rest.Config{Host: web.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.agent.Run(ctx) }()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		drained, done := context.WithTimeout(context.Background(), patience)
		defer done()
		err := n.agent.Drain(drained)
		cancel()
		if err = errors.Join(err, <-ended); err != nil {
			t.Error(err)
		}
	})
	return n
}

const (
	port   = 8080
	copies = "cat"
	fails  = "echo out; echo err >&2; exit 7"
)

// run runs the pod that clients access.
func (n *node) run(t *testing.T, command ...string) {
	t.Helper()
	n.start(t, n.pod("web", command...))
}

// pod returns a pod with one container that runs a command.
func (n *node) pod(name string, command ...string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: n.uid + types.UID("-"+name)},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []v1.Container{{Name: "app", Image: n.image, ImagePullPolicy: v1.PullIfNotPresent, Command: command}},
		},
	}
}

// start waits until the container of a pod is ready.
func (n *node) start(t *testing.T, pod *v1.Pod) {
	t.Helper()
	must.Do(t, n.pods.Update(pod))
	n.wait(t, func() bool {
		for _, p := range n.agent.Pods() {
			for _, c := range p.Status.ContainerStatuses {
				if p.Pod.UID == pod.UID && c.Ready {
					return true
				}
			}
		}
		return false
	})
}

func (n *node) wait(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come: %v", n.agent.Health())
		}
	}
}

// get returns the response to a GET of an allowed user.
func (n *node) get(t *testing.T, path string) []byte {
	t.Helper()
	transport, err := rest.TransportFor(n.config)
	if err != nil {
		t.Fatal(err)
	}
	resp := must.Get((&http.Client{Transport: transport}).Get(n.config.Host + path))(t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v, want %v and no error", path, resp.Status, text, err, http.StatusOK)
	}
	return text
}
