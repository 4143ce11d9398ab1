package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// nodeEvents are the events about a node.
type nodeEvents struct {
	mu     sync.Mutex
	events []string
}

func (e *nodeEvents) Eventf(object k8sruntime.Object, kind, reason, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if about := object.(*v1.ObjectReference); about.Kind == "Node" {
		e.events = append(e.events, about.Name+" "+kind+" "+reason+": "+fmt.Sprintf(format, args...))
	}
}

func (e *nodeEvents) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.events)
}

// An agent checks the disk of images every five minutes, and removes no image. The
// disk does not exist, so that the test does not depend on this machine's disk.
func TestImagesAreCollected(t *testing.T) {
	almostFull := image.GCPolicy{HighPercent: 99} // the disk is this machine's
	for _, tt := range []struct {
		name   string
		change func(*agent.Config)
		want   int // calls of ImageFsInfo in an hour
	}{
		{"off", nil, 0},
		{"a policy", func(c *agent.Config) { c.NoImageGC, c.ImagePolicy = false, almostFull }, 12},
		{"never", func(c *agent.Config) { c.NoImageGC, c.ImagePolicy = false, image.GCPolicy{HighPercent: 100} }, 0},
	} {
		dir := filepath.Join(t.TempDir(), "runtime")
		must.Do(t, os.Mkdir(dir, 0o755))
		inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
			must.Do(t, os.RemoveAll(dir))
			n.start([]source.Source{source.NewStaticPush("file")}, tt.change)
			time.Sleep(10*time.Minute + time.Second)
			before := len(n.Journal())
			time.Sleep(time.Hour)
			calls := n.Journal().After(before)
			if got := calls.Count(critest.ImageFsInfo); got != tt.want || calls.Count(critest.ListImages) > 0 {
				t.Errorf("%s: %d calls in an hour, want %d, of\n%v", tt.name, got, tt.want, calls.Counts())
			}
		})
	}
}

// G1: the images of the agent's own pods are never removed, and unused images are removed
// as soon as the policy allows it.
func TestG1_ImagesOfPodsStay(t *testing.T) {
	images := []critest.Image{{Name: "registry.test/app:1"}, {Name: "registry.test/old:1"}}
	inBubble(t, critest.Config{Images: images}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *agent.Config) {
			c.NoImageGC, c.ImagePolicy = false, image.GCPolicy{HighPercent: 100, MinAge: 1, MaxAge: time.Second}
		})
		var pods []*v1.Pod
		for i := range 3 {
			pods = append(pods, pod("file", fmt.Sprint("web-", i), fmt.Sprint("u", i), "sleep 1; exit 1"))
		}
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Times: faults.Always, Delay: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		set(t, src, pods...)
		time.Sleep(15 * time.Minute)
		removed := n.Journal().Of(critest.RemoveImage)
		if len(removed) != 1 || len(n.Journal().Of(critest.CreateContainer).Where(func(c critest.Call) bool { return c.Err != nil })) > 0 || n.Journal().Count(critest.PullImage) > 0 {
			t.Errorf("%d images were removed, want the old one:\n%v", len(removed), removed)
		}
		set(t, src)
		time.Sleep(6 * time.Minute)
		if got := n.Journal().Count(critest.RemoveImage); got != 2 {
			t.Errorf("%d images were removed after the pods were", got)
		}
	})
}

// The agent knows from its own pods which images are in use, even if no pass has seen the use. MinAge
// counts from the end of that use.
func TestImagesOfPodsAreKnownWithoutAList(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *agent.Config) {
			c.NoImageGC, c.ImagePolicy = false, image.GCPolicy{HighPercent: 100, MaxAge: 90 * time.Minute}
		})
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(90 * time.Minute)
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.ListImages}, Err: status.Error(codes.Unknown, "not now")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		set(t, src)
		for _, want := range []int{0, 1} {
			time.Sleep(time.Hour)
			if got := n.Journal().Count(critest.RemoveImage); got != want {
				t.Errorf("%d images were removed, want %d", got, want)
			}
		}
	})
}

// Failures are events of the node, in the words that a kubelet's users know.
func TestImageEvents(t *testing.T) {
	for _, tt := range []struct{ node, want string }{
		{"n", "n Warning ImageGCFailed: image: where images are: not now"},
		{"", ""},
	} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.ImageFsInfo}, Err: status.Error(codes.Unknown, "not now")}); err != nil {
				t.Fatal(err)
			}
			events := &nodeEvents{}
			n.start([]source.Source{source.NewStaticPush("file")}, func(c *agent.Config) {
				c.NoImageGC, c.NodeName, c.Sync.Events = false, tt.node, syncpod.EventRecorderFunc(events.Eventf)
			})
			time.Sleep(7 * time.Minute)
			if got := strings.Join(events.all(), "\n"); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// E2: a pass that hangs delays neither pods nor the end of the agent.
func TestE2_AHangingImageCollector(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		if _, err := n.Inject(faults.Fault{Match: faults.Match{Method: critest.ImageFsInfo}, Times: faults.Always, Hang: &faults.Gate{}}); err != nil {
			t.Fatal(err)
		}
		src := source.NewStaticPush("file")
		events := &nodeEvents{}
		a := n.start([]source.Source{src}, func(c *agent.Config) {
			c.NoImageGC, c.NodeName, c.Sync.Events = false, "n", syncpod.EventRecorderFunc(events.Eventf)
		})
		time.Sleep(5*time.Minute + time.Second)
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(5 * time.Second)
		n.wantRunning(1, "u")
		began := time.Now()
		a.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v to stop", took)
		}
		if got := events.all(); len(got) > 0 {
			t.Errorf("events %q at the end of the agent, want none", got)
		}
	})
}

func TestImagePolicyIsChecked(t *testing.T) {
	_, conn := critest.Start(t, critest.Config{})
	c := agent.Config{Client: cri.NewClient(conn), Sources: []source.Source{source.NewPush()}, ImagePolicy: image.GCPolicy{LowPercent: 90}}
	c.Sync.RuntimeName, c.Sync.Node.LogsRoot = "critest", "/var/log/pods"
	if _, err := agent.New(c); err == nil || !strings.Contains(err.Error(), "agent: Config.ImagePolicy") {
		t.Errorf("%v, want Config.ImagePolicy named", err)
	}
}
