package pleg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// node is a node that a Watcher watches.
type node struct{ *testnode.Node }

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, c critest.Config, test func(t *testing.T, n *node)) {
	t.Helper()
	testnode.Run(t, c, func(t *testing.T, n *testnode.Node) { test(t, &node{n.Dial(cri.Config{})}) })
}

// pod starts a pod with one container that never exits, and returns the container's ID.
func (n *node) pod(uid string) string {
	n.Helper()
	return n.RunPod(uid, "app")[0]
}

// pods starts count pods, whose names begin with the prefix, and returns the IDs of their containers.
func (n *node) pods(prefix string, count int) (ids []string) {
	n.Helper()
	for i := range count {
		ids = append(ids, n.pod(fmt.Sprintf("%s%02d", prefix, i)))
	}
	return ids
}

// A word is one report of a Watcher.
type word struct {
	at     time.Duration
	uid    types.UID
	status *runtime.PodStatus // nil if the report is about the runtime
	err    error
}

func (w word) String() string {
	if w.status == nil {
		return fmt.Sprintf("%v available %v", w.at, w.err)
	}
	return fmt.Sprintf("%v %s %s", w.at, w.uid, states(w.status))
}

// states returns a status in short.
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

// watch is a running Watcher with its reports.
type watch struct {
	*Watcher
	n     *node
	stop  func() error
	began time.Time

	mu    sync.Mutex
	words []word
}

// run runs a Watcher with events until the test's end.
func (n *node) run(changes ...func(*Config)) *watch {
	n.Helper()
	w := &watch{n: n, began: time.Now()}
	c := Config{Reader: n.Reader(), Events: n.Client, Changed: w.changed, AvailableChanged: w.available}
	for _, change := range changes {
		change(&c)
	}
	var err error
	w.Watcher, err = New(c)
	n.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	n.Cleanup(func() {
		if err := w.stop(); !errors.Is(err, context.Canceled) {
			n.Errorf("Run: %v", err)
		}
	})
	return w
}

// settled runs a Watcher until it has reported all pods and is idle.
func (n *node) settled(changes ...func(*Config)) *watch {
	n.Helper()
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

// heard returns the reports since its last call.
func (w *watch) heard() []word {
	w.mu.Lock()
	defer w.mu.Unlock()
	words := w.words
	w.words = nil
	return words
}

// heardOf returns the reported states of the pod since then.
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
