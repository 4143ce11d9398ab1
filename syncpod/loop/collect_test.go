package loop_test

import (
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
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

// If it is asked to, an agent looks at the disk every five minutes, and at no image. The
// disk is one that is not there, lest the test goes by how full that of this machine is.
func TestImagesAreCollectedOnDemand(t *testing.T) {
	almostFull := &image.GCPolicy{HighPercent: 99} // the disk is this machine's
	for _, tt := range []struct {
		name   string
		change func(*loop.Config)
		want   int // calls of ImageFsInfo in an hour
	}{
		{"default", nil, 0},
		{"a policy", func(c *loop.Config) { c.ImagePolicy = almostFull }, 12},
		{"another interval", func(c *loop.Config) { c.ImagePolicy, c.ImageInterval = almostFull, time.Minute }, 60},
		{"never", func(c *loop.Config) { c.ImagePolicy = &image.GCPolicy{HighPercent: 100} }, 0},
		{"another collector", func(c *loop.Config) { c.ImagePolicy, c.ImageCollector = almostFull, &failing{} }, 0},
	} {
		dir := filepath.Join(t.TempDir(), "runtime")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
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

// unleased has images, and does not tell which are about to be used.
type unleased struct{ *cri.Client }

func (u unleased) EnsureImage(context.Context, image.Request) (*image.Image, error) {
	return nil, errors.New("not here")
}

func (unleased) Forget(types.UID) {}

// G1: the agent's own pods never find their image gone, and images that nobody uses go,
// as soon as they may.
func TestG1_ImagesOfPodsStay(t *testing.T) {
	images := []critest.Image{{Name: "registry.test/app:1"}, {Name: "registry.test/old:1"}}
	inBubble(t, critest.Config{Images: images}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *loop.Config) {
			c.ImagePolicy, c.ImageInterval = &image.GCPolicy{HighPercent: 100, MinAge: 1, MaxAge: time.Second}, time.Second
		})
		var pods []*v1.Pod
		for i := range 3 {
			pods = append(pods, pod("file", fmt.Sprint("web-", i), fmt.Sprint("u", i), "sleep 1; exit 1"))
		}
		if _, err := n.Inject(critest.Fault{Match: critest.Match{Method: critest.CreateContainer}, Times: critest.Always, Delay: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		set(t, src, pods...)
		time.Sleep(15 * time.Minute)
		removed := n.Journal().Of(critest.RemoveImage)
		if len(removed) != 1 || len(n.Journal().Of(critest.CreateContainer).Failed()) > 0 || n.Journal().Count(critest.PullImage) > 0 {
			t.Errorf("%d images were removed, want the old one:\n%v", len(removed), removed)
		}
		set(t, src)
		time.Sleep(time.Minute)
		if got := n.Journal().Count(critest.RemoveImage); got != 2 {
			t.Errorf("%d images were removed after the pods were", got)
		}
	})
}

// That an image is in use is known from the agent's own pods, also when a pass has not
// seen it: the image stays for its time from then on.
func TestImagesOfPodsAreKnownWithoutAList(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := source.NewStaticPush("file")
		n.start([]source.Source{src}, func(c *loop.Config) {
			c.ImagePolicy, c.ImageInterval = &image.GCPolicy{HighPercent: 100, MaxAge: 90 * time.Minute}, time.Hour
		})
		set(t, src, pod("file", "web", "u", forever))
		time.Sleep(90 * time.Minute)
		if _, err := n.Inject(critest.Fault{Match: critest.Match{Method: critest.ListImages}, Err: status.Error(codes.Unknown, "not now")}); err != nil {
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

// failing is an ImageCollector that fails.
type failing struct{ err error }

func (f *failing) Collect(context.Context) error { return f.err }

// What goes wrong is told of the node, in the words that a kubelet's users know.
func TestImageEvents(t *testing.T) {
	full := fmt.Errorf("image: %w: of 2 bytes", image.ErrDiskFull)
	for _, tt := range []struct {
		collector loop.ImageCollector
		node      string
		want      string
	}{
		{&failing{full}, "n", "n Warning FreeDiskSpaceFailed: " + full.Error()},
		{&failing{errors.New("boom")}, "n", "n Warning ImageGCFailed: boom"},
		{&failing{errors.New("boom")}, "", ""},
		{&failing{}, "n", ""},
		{nil, "n", "n Warning ImageGCFailed: image: where images are: not now"},
	} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			if _, err := n.Inject(critest.Fault{Match: critest.Match{Method: critest.ImageFsInfo}, Err: status.Error(codes.Unknown, "not now")}); err != nil {
				t.Fatal(err)
			}
			events := &nodeEvents{}
			n.start([]source.Source{source.NewStaticPush("file")}, func(c *loop.Config) {
				c.ImagePolicy, c.ImageCollector = &image.GCPolicy{}, tt.collector
				c.NodeName, c.Sync.Events = tt.node, events
			})
			time.Sleep(7 * time.Minute)
			if got := strings.Join(events.all(), "\n"); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// E2: a pass that hangs holds up no pod, and not the end of the agent.
func TestE2_AHangingImageCollector(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		if _, err := n.Inject(critest.Fault{Match: critest.Match{Method: critest.ImageFsInfo}, Times: critest.Always, Hang: &critest.Gate{}}); err != nil {
			t.Fatal(err)
		}
		src := source.NewStaticPush("file")
		events := &nodeEvents{}
		a := n.start([]source.Source{src}, func(c *loop.Config) { c.NodeName, c.Sync.Events = "n", events })
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
			t.Errorf("%q was told of the end of the agent", got)
		}
	})
}

func TestImageConfig(t *testing.T) {
	client := cri.NewClient(nil)
	for _, tc := range []struct {
		field  string
		change func(*loop.Config)
	}{
		{"ImageInterval", func(c *loop.Config) { c.ImageInterval = -1 }},
		{"ImagePolicy", func(c *loop.Config) { c.ImagePolicy = &image.GCPolicy{LowPercent: 90} }},
		{"ImagePolicy", func(c *loop.Config) { c.ImagePolicy, c.Sync.Deps.Images = &image.GCPolicy{}, unleased{client} }},
	} {
		c := loop.Config{Client: client, Sources: []source.Source{source.NewStaticPush("s")}, Sync: syncpod.Config{RuntimeName: "critest"}}
		tc.change(&c)
		if _, err := loop.New(c); err == nil || !strings.Contains(err.Error(), "loop: Config."+tc.field) {
			t.Errorf("%v, want %s named", err, tc.field)
		}
	}
}
