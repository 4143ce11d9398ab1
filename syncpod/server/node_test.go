package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/server"
	"github.com/podsync/podsync/syncpod/source"
)

// patience is how long a test waits for an expected event.
const patience = 20 * time.Second

// A node is an agent on a runtime in memory, with a server.
type node struct {
	*testnode.Node
	dir     string
	agent   *agent.Agent
	pods    *source.Push
	handler *server.Server
	url     string
	streams string // the URL that the runtime gives for streams
	asked   chan any
	caller  net.Conn // of the last requested WebSocket
}

// streaming is a runtime whose streaming server is elsewhere.
type streaming struct {
	runtimeapi.RuntimeServiceClient
	node *node
}

func (n *node) streaming() *cri.Client {
	return &cri.Client{RuntimeServiceClient: streaming{n.Client, n}, ImageServiceClient: n.Client}
}

func (s streaming) Exec(_ context.Context, req *runtimeapi.ExecRequest, _ ...grpc.CallOption) (*runtimeapi.ExecResponse, error) {
	s.node.asked <- req
	return &runtimeapi.ExecResponse{Url: s.node.streams}, nil
}

func (s streaming) Attach(_ context.Context, req *runtimeapi.AttachRequest, _ ...grpc.CallOption) (*runtimeapi.AttachResponse, error) {
	s.node.asked <- req
	return &runtimeapi.AttachResponse{Url: s.node.streams}, nil
}

func (s streaming) PortForward(_ context.Context, req *runtimeapi.PortForwardRequest, _ ...grpc.CallOption) (*runtimeapi.PortForwardResponse, error) {
	s.node.asked <- req
	return &runtimeapi.PortForwardResponse{Url: s.node.streams}, nil
}

func (s streaming) CheckpointContainer(_ context.Context, req *runtimeapi.CheckpointContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CheckpointContainerResponse, error) {
	s.node.asked <- req
	return &runtimeapi.CheckpointContainerResponse{}, nil
}

// everybody authenticates and authorizes every request.
type everybody struct{}

func (everybody) AuthenticateRequest(*http.Request) (server.User, bool, error) {
	return server.User{Name: "ann"}, true, nil
}

func (everybody) Authorize(context.Context, server.Attributes) (bool, string, error) {
	return true, "", nil
}

// newNode runs an agent, whose server everybody may ask unless the function changes
// that.
func newNode(t testing.TB, change func(*server.Config)) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{Node: testnode.New(t, critest.Config{Dir: dir}), dir: dir, pods: source.NewPush(), asked: make(chan any, 1000)}
	n.agent = must.Get(agent.New(agent.Config{
		Client: n.Client, Sources: []source.Source{n.pods}, NoEviction: true, // this machine may be short of something
		Sync: syncpod.Config{Node: syncpod.Node{LogsRoot: n.logsRoot()}, RuntimeName: "critest"},
	}))(t)
	config := server.Config{Agent: n.agent, Client: n.streaming(), NodeName: "node1", Authenticator: everybody{}, Authorizer: everybody{}}
	if change != nil {
		change(&config)
	}
	n.handler = must.Get(server.New(config))(t)
	var asking sync.WaitGroup
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asking.Add(1)
		defer asking.Done()
		n.handler.ServeHTTP(w, r)
	}))
	n.url = web.URL
	must.Run(t, n.agent.Run)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		left := time.AfterFunc(patience, func() { panic("a request is left whose caller has gone") })
		asking.Wait()
		left.Stop()
	})
	return n
}

// fail has a method of the runtime fail some times.
func (n *node) fail(method critest.Method, message string, times int) {
	n.Helper()
	n.Fault(faults.Fault{Match: faults.Match{Method: method}, Err: status.Error(codes.Unknown, message), Times: times})
}

func (n *node) logsRoot() string { return filepath.Join(n.dir, "logs") }

// run runs a pod of one container and waits until its status is as wanted.
func (n *node) run(name, script string, is func(v1.PodStatus) bool) *v1.Pod {
	n.Helper()
	return n.runIn("default", name, script, is)
}

// runIn does so in a namespace.
func (n *node) runIn(namespace, name, script string, is func(v1.PodStatus) bool) *v1.Pod {
	n.Helper()
	return n.set(podtest.Pod(name, podtest.Namespace(namespace), podtest.UID(types.UID("uid-of-"+name)), podtest.RestartPolicy(v1.RestartPolicyNever),
		podtest.Container("app", podtest.Script(script))), is)
}

func (n *node) set(pod *v1.Pod, is func(v1.PodStatus) bool) *v1.Pod {
	n.Helper()
	must.Do(n, n.pods.Update(pod))
	n.wait(func() bool {
		for _, p := range n.agent.Pods() {
			if p.Pod.UID == pod.UID && is(p.Status) {
				return true
			}
		}
		return false
	})
	return pod
}

func isRunning(s v1.PodStatus) bool { return s.Phase == v1.PodRunning }

func isOver(s v1.PodStatus) bool { return s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed }

func (n *node) wait(is func() bool) {
	n.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.Fatalf("it does not come: %v", n.agent.Health())
		}
	}
}

// ask sends a request, and returns the status and the body of the response.
func (n *node) ask(method, path string) (int, string) {
	n.Helper()
	req := must.Get(http.NewRequestWithContext(n.Context(), method, n.url+path, nil))(n)
	resp := must.Get(http.DefaultTransport.RoundTrip(req))(n)
	defer resp.Body.Close()
	text := must.Get(io.ReadAll(resp.Body))(n)
	return resp.StatusCode, string(text)
}

// want sends a request, and reports differences from the expected response.
func (n *node) want(method, path string, code int, text string) {
	n.Helper()
	gotCode, got := n.ask(method, path)
	if gotCode != code || !strings.Contains(got, text) || text == "" && got != "" {
		n.Errorf("%s %s: %d %q, want %d %q", method, path, gotCode, got, code, text)
	}
}
