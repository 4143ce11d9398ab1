// Package testnode is the node that tests share: a runtime in memory, its client, and
// methods for tests. A package that needs more embeds Node in its own type.
package testnode

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/reader"
)

// Image is the image of the containers that a Node starts itself.
const Image = "registry.test/app:1"

// Name is how the runtime is called in the container IDs.
const Name = "critest"

// Node is a runtime in memory, reached as any runtime is. Its methods end the test if
// they fail, so they are for the test's own goroutine.
type Node struct {
	testing.TB
	*critest.Runtime
	Client *cri.Client
	Owner  cri.Owner // the owner of objects: podsync's own agent, unless As sets another

	SandboxIDs map[string]string // of the last one of each pod, by UID
}

// New starts a node that ends with the test. It makes no runtime call, not even
// Version.
func New(t testing.TB, c critest.Config) *Node {
	t.Helper()
	c.ServeUnknown = true // the tests name servers that no image contains
	r, _ := critest.Start(t, c)
	n := &Node{TB: t, Runtime: r, SandboxIDs: map[string]string{}}
	conn, err := r.Dial(grpc.WithChainUnaryInterceptor(cri.Timeouts{}.Interceptor()))
	n.Must(err)
	n.Cleanup(func() { conn.Close() })
	n.Client = cri.NewClient(conn)
	return n
}

// Run runs a test on a node in virtual time.
func Run(t *testing.T, c critest.Config, test func(t *testing.T, n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, New(t, c)) })
}

// Dial has the node's Client be one of cri.Dial. Its Dialer is filled in.
func (n *Node) Dial(c cri.Config) *Node {
	n.Helper()
	l := bufconn.Listen(1 << 16)
	go n.Serve(l)
	c.Dialer = func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) }
	client, err := cri.Dial(n.Context(), c)
	n.Must(err)
	n.Cleanup(func() { client.Close() })
	n.Client = client
	return n
}

// Must ends the test if there is an error.
func (n *Node) Must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// Fault has calls fail from now on.
func (n *Node) Fault(f faults.Fault) faults.Injected {
	n.Helper()
	injected, err := n.Inject(f)
	n.Must(err)
	return injected
}

// Calls are the calls that are made while f runs.
func (n *Node) Calls(f func()) critest.Journal {
	before := len(n.Journal())
	f()
	return n.Journal().After(before)
}

// As is the same node for another owner.
func (n *Node) As(o cri.Owner) *Node {
	as := *n
	as.Owner = o
	return &as
}

// Reader returns a reader of the owner's pods.
func (n *Node) Reader() *reader.Reader {
	n.Helper()
	r, err := reader.New(reader.Config{Runtime: n.Client, RuntimeName: Name, Owner: n.Owner})
	n.Must(err)
	return r
}

// Status returns the status of a pod of the owner.
func (n *Node) Status(uid types.UID) *runtime.PodStatus {
	n.Helper()
	s, err := n.Reader().PodStatus(n.Context(), uid, nil)
	n.Must(err)
	return s
}

// Sandboxes are all there are, whosever they are.
func (n *Node) Sandboxes() []*runtimeapi.PodSandbox {
	n.Helper()
	resp, err := n.Client.ListPodSandbox(n.Context(), &runtimeapi.ListPodSandboxRequest{})
	n.Must(err)
	return resp.GetItems()
}

// Exit ends a container's process.
func (n *Node) Exit(id string, code int32) {
	n.Helper()
	n.Must(n.ExitContainer(id, critest.Exit{Code: code}))
}
