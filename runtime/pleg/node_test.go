package pleg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// node is a runtime in memory.
type node struct {
	*critest.Runtime
	t      testing.TB
	client *cri.Client
	// sandboxes by UID
	sandboxes map[string]string
}

func newNode(t testing.TB, c critest.Config) *node {
	t.Helper()
	c.Images = []critest.Image{{Name: "app"}}
	r, err := critest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	l := bufconn.Listen(1 << 16)
	go r.Serve(l)
	client, err := cri.Dial(t.Context(), cri.Config{Dialer: func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &node{Runtime: r, t: t, client: client, sandboxes: map[string]string{}}
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, c critest.Config, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newNode(t, c)) })
}

func (n *node) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func sandboxConfig(uid string) *runtimeapi.PodSandboxConfig {
	labels := cri.Owner{}.Mark(map[string]string{runtime.LabelPodName: uid, runtime.LabelPodNamespace: "ns", runtime.LabelPodUID: uid})
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: uid, Namespace: "ns", Uid: uid}, Labels: labels,
		Annotations: map[string]string{runtime.AnnotationConfigSource: "file"},
	}
}

// sandbox makes a pod's sandbox.
func (n *node) sandbox(uid string) {
	n.t.Helper()
	resp, err := n.client.RunPodSandbox(n.t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig(uid)})
	n.check(err)
	n.sandboxes[uid] = resp.GetPodSandboxId()
}

// start starts a container in a pod's sandbox and returns its ID.
func (n *node) start(uid, name string, attempt uint32, script string) string {
	n.t.Helper()
	config := sandboxConfig(uid)
	resp, err := n.client.CreateContainer(n.t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: n.sandboxes[uid], SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: "app"}, Labels: config.Labels,
			Command: []string{"sh", "-c", script},
		},
	})
	n.check(err)
	_, err = n.client.StartContainer(n.t.Context(), &runtimeapi.StartContainerRequest{ContainerId: resp.GetContainerId()})
	n.check(err)
	return resp.GetContainerId()
}

// pod runs a pod of one container for ever and returns the container's ID.
func (n *node) pod(uid string) string {
	n.t.Helper()
	n.sandbox(uid)
	return n.start(uid, "app", 0, "sleep infinity")
}

// pods runs so many pods, named after the prefix, and returns the containers' IDs.
func (n *node) pods(prefix string, count int) (ids []string) {
	n.t.Helper()
	for i := range count {
		ids = append(ids, n.pod(fmt.Sprintf("%s%02d", prefix, i)))
	}
	return ids
}

func (n *node) exit(id string, code int32) {
	n.t.Helper()
	n.check(n.ExitContainer(id, critest.Exit{Code: code}))
}

func (n *node) inject(f critest.Fault) *critest.Injected {
	n.t.Helper()
	i, err := n.Inject(f)
	n.check(err)
	return i
}

func (n *node) reader() *cri.Reader {
	n.t.Helper()
	r, err := cri.NewReader(cri.ReaderConfig{Runtime: n.client, RuntimeName: "critest"})
	n.check(err)
	return r
}

// calls are the calls that f makes, by method.
func (n *node) calls(f func()) critest.Journal {
	before := len(n.Journal())
	f()
	return n.Journal().After(before)
}

// A word is one thing that a Watcher told.
type word struct {
	at     time.Duration
	uid    types.UID
	status *runtime.PodStatus // nil if the word is about the runtime
	err    error
}

func (w word) String() string {
	if w.status == nil {
		return fmt.Sprintf("%v available %v", w.at, w.err)
	}
	return fmt.Sprintf("%v %s %s", w.at, w.uid, states(w.status))
}

// states is a status in short.
func states(s *runtime.PodStatus) string {
	if s == nil {
		return "nil"
	}
	var parts []string
	for _, sb := range s.Sandboxes {
		parts = append(parts, fmt.Sprintf("sandbox %v", sb.State))
	}
	for _, c := range s.Containers {
		parts = append(parts, fmt.Sprintf("%s/%d %v %d", c.Name, c.Attempt, c.State, c.ExitCode))
	}
	return strings.Join(parts, ", ")
}

// watch is a Watcher that runs, and what it told.
type watch struct {
	*Watcher
	n     *node
	stop  func() error
	began time.Time

	mu    sync.Mutex
	words []word
}

// run runs a Watcher with events until the end of the test.
func (n *node) run(changes ...func(*Config)) *watch {
	n.t.Helper()
	w := &watch{n: n, began: time.Now()}
	c := Config{Reader: n.reader(), Events: n.client, Changed: w.changed, AvailableChanged: w.available}
	for _, change := range changes {
		change(&c)
	}
	var err error
	w.Watcher, err = New(c)
	n.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	n.t.Cleanup(func() {
		if err := w.stop(); !errors.Is(err, context.Canceled) {
			n.t.Errorf("Run: %v", err)
		}
	})
	return w
}

// settled runs a Watcher that has told of all that there is, and has nothing to look at.
func (n *node) settled(changes ...func(*Config)) *watch {
	n.t.Helper()
	w := n.run(changes...)
	time.Sleep(2 * time.Second)
	w.heard()
	return w
}

func (w *watch) changed(uid types.UID, s *runtime.PodStatus) { w.say(word{uid: uid, status: s}) }
func (w *watch) available(err error)                         { w.say(word{err: err}) }

func (w *watch) say(what word) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what.at = time.Since(w.began)
	w.words = append(w.words, what)
}

// heard returns what was told since the last time it was asked.
func (w *watch) heard() []word {
	w.mu.Lock()
	defer w.mu.Unlock()
	words := w.words
	w.words = nil
	return words
}

// heardOf returns the states of the pod that were told since then.
func (w *watch) heardOf(uid types.UID) (all []string) {
	for _, h := range w.heard() {
		if h.uid == uid {
			all = append(all, states(h.status))
		}
	}
	return all
}

func listsOnly(c *Config) { c.Events = nil }
func internal() error     { return status.Error(codes.Internal, "disk on fire") }
