package agent_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/journal"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

var rewrite = flag.Bool("rewrite", false, "write the counts of TestCosts into testdata/costs.txt")

// costs counts an agent's work by its kind.
type costs struct {
	podworkers.NopObserver
	mu     sync.Mutex
	counts map[string]int
}

func (c *costs) add(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.counts[kind] += n
	}
}

// take returns the counts since the last call, one line for each kind.
func (c *costs) take(what string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", what)
	for _, kind := range slices.Sorted(maps.Keys(c.counts)) {
		fmt.Fprintf(&text, "  %-24s %d\n", kind, c.counts[kind])
	}
	c.counts = map[string]int{}
	return text.String()
}

// drop forgets the counts of some kinds.
func (c *costs) drop(kinds ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kind := range kinds {
		delete(c.counts, kind)
	}
}

func (c *costs) SyncEnded(w podworkers.Work, _ time.Duration, _ error) { c.add(w.Type.String(), 1) }

// intercept counts each call, and the entries of lists.
func (c *costs) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	c.add(string(journal.Method(filepath.Base(method))), 1)
	switch list := reply.(type) {
	case *runtimeapi.ListPodSandboxResponse:
		c.add("entries of lists", len(list.GetItems()))
	case *runtimeapi.ListContainersResponse:
		c.add("entries of lists", len(list.GetContainers()))
	}
	return err
}

// testdata/costs.txt lists an agent's work. A change that adds work edits the file, and its author sees what the
// change costs. The parts that measure this machine are off: eviction, and the garbage collection of images.
func TestCosts(t *testing.T) {
	var seen strings.Builder
	for _, pods := range []int{1, 100} {
		root := t.TempDir()
		inBubble(t, critest.Config{LogsRoot: filepath.Join(root, "logs")}, func(t *testing.T, n *node) { seen.WriteString(costsOf(t, n, root, pods)) })
	}
	const file = "testdata/costs.txt"
	if *rewrite {
		must.Do(t, os.WriteFile(file, []byte(seen.String()), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	if seen.String() != string(want) {
		t.Errorf("%s has other counts (go test ./syncpod/agent -run TestCosts -rewrite records these):\n%s", file, seen.String())
	}
}

// A costed node runs agents whose work is counted.
type costed struct {
	*node
	root   string
	counts *costs
	src    *source.Push
	pods   []*v1.Pod
	text   strings.Builder
}

func newCosted(n *node, root string, pods int) *costed {
	c := &costed{node: n, root: root, counts: &costs{counts: map[string]int{}}, pods: make([]*v1.Pod, pods)}
	for i := range c.pods {
		id := fmt.Sprintf("web-%d", i)
		c.pods[i] = pod("file", id, id, forever)
	}
	return c
}

// start starts an agent, to which set gives pods.
func (n *costed) start(t *testing.T) *running {
	t.Helper()
	n.src = source.NewStaticPush("file")
	conn, err := n.Runtime.Dial(grpc.WithChainUnaryInterceptor(n.counts.intercept))
	n.Must(err)
	t.Cleanup(func() { conn.Close() })
	return n.node.start([]source.Source{n.src}, func(c *agent.Config) {
		c.Client = cri.NewClient(conn)
		c.NoLogRotation, c.Sync.Node.LogsRoot = false, filepath.Join(n.root, "logs")
		c.Workers.Observer = n.counts
		c.Sync.Root = n.root
	})
}

func (n *costed) set(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	set(t, n.src, pods...)
}

// report adds the counts since the last report.
func (n *costed) report(what string) {
	n.text.WriteString(n.counts.take(fmt.Sprintf("%d pods, %s", len(n.pods), what)))
}

func (n *costed) idleHour() {
	time.Sleep(10 * time.Minute)
	n.counts.take("")
	time.Sleep(time.Hour)
	n.report("an idle hour")
}

// nextAgent reports the first minute of an agent that adopts the pods.
func (n *costed) nextAgent(t *testing.T, before *running) {
	t.Helper()
	before.stop()
	n.counts.take("")
	n.start(t)
	n.set(t, n.pods...)
	time.Sleep(time.Minute)
	n.report("the next agent's first minute")
}

// costsOf returns the counts of a life of so many pods.
func costsOf(t *testing.T, node *node, root string, pods int) string {
	n := newCosted(node, root, pods)
	a := n.start(t)
	time.Sleep(time.Minute)
	n.counts.take("")
	for i := range n.pods { // one after another, as their work is counted, and not the order in which it is done
		n.set(t, n.pods[:i+1]...)
		time.Sleep(5 * time.Second)
	}
	n.report("all started, one every 5 s")
	n.idleHour()
	n.Must(n.ExitContainer(n.instances("web-0").Containers[0].ID.ID, critest.Exit{Code: 1}))
	time.Sleep(time.Minute)
	n.report("a container exits, and is restarted")
	n.nextAgent(t, a)
	n.set(t, n.pods[1:]...)
	time.Sleep(time.Minute)
	// How often the runtime is listed during a stop depends on the order in which goroutines see the container's end.
	n.counts.drop("ListContainers", "ListPodSandbox", "entries of lists")
	n.report("one pod is removed")
	return n.text.String()
}
