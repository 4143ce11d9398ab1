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
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/source"
)

// cards gives each container another card, while there are any.
type cards struct {
	mu   sync.Mutex
	next int
	none bool
	gone []types.UID
}

func (c *cards) Allocate(context.Context, *v1.Pod, *v1.Container) (device.Allocation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none {
		return device.Allocation{}, errors.New("no card is free")
	}
	c.next++
	path := fmt.Sprint("/dev/card", c.next)
	return device.Allocation{
		Devices: []device.Device{{HostPath: path, ContainerPath: "/dev/card", Permissions: "rw"}},
		Mounts:  []device.Mount{{HostPath: "/opt/card", ContainerPath: "/opt/card", ReadOnly: true}},
		Env:     map[string]string{"CARD": path, "MINE": "device"}, Annotations: map[string]string{"cards.test/path": path},
		CDIDevices: []string{fmt.Sprint("cards.test/card=", c.next)},
	}, nil
}

func (c *cards) Release(_ context.Context, uid types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, uid)
	return nil
}

// released are the pods whose cards were given back.
func (c *cards) released() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.gone)
}

// has says whether there are cards.
func (c *cards) has(any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.none = !any
}

// A container keeps its device over its own restarts and those of the agent. A container without a free device is not
// created until a device is free. After the removal of the pod, the device is released.
func TestDevices(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		given := &cards{none: true}
		run := func() (*agent, *source.Push) {
			keeper, err := device.New(device.Config{State: filepath.Join(dir, "devices"), Allocator: given})
			if err != nil {
				t.Fatal(err)
			}
			src := source.NewPush()
			return n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Extensions.Devices = keeper }), src
		}
		a, src := run()
		web := api(pod("", "web", "u", "sleep 600; exit 1"))
		web.Spec.Containers[0].Env = []v1.EnvVar{{Name: "MINE", Value: "spec"}}
		set(t, src, web)
		time.Sleep(time.Minute)
		if w := a.sink.of("u").ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "CreateContainerConfigError" || !strings.Contains(w.Message, "devices: no card is free") {
			t.Errorf("without a card the container waits as %+v", w)
		}
		if n.Journal().Count(critest.CreateContainer) > 0 {
			t.Error("a container was created without its card")
		}
		given.has(true)
		time.Sleep(15 * time.Minute) // it ends once, and is restarted
		a.kill()
		_, src = run()
		set(t, src, web)
		time.Sleep(30 * time.Minute)
		creates := n.Journal().Of(critest.CreateContainer)
		if len(creates) < 3 {
			t.Fatalf("the container was created %d times", len(creates))
		}
		for _, call := range creates {
			c := call.Request().(*runtimeapi.CreateContainerRequest).GetConfig()
			env := map[string]string{}
			for _, e := range c.GetEnvs() {
				env[e.GetKey()] = string(e.GetValue())
			}
			got := fmt.Sprint(c.GetDevices(), c.GetCDIDevices(), env["CARD"], env["MINE"], c.GetAnnotations()["cards.test/path"], len(c.GetMounts()))
			if len(c.GetDevices()) != 1 || c.GetDevices()[0].GetHostPath() != "/dev/card1" || c.GetCDIDevices()[0].GetName() != "cards.test/card=1" ||
				env["CARD"] != "/dev/card1" || env["MINE"] != "spec" || c.GetAnnotations()["cards.test/path"] != "/dev/card1" || c.GetMounts()[0].GetContainerPath() != "/opt/card" {
				t.Errorf("the container was created with %s", got)
			}
		}
		set(t, src)
		time.Sleep(time.Minute)
		if gone := given.released(); len(gone) == 0 || gone[0] != "u" {
			t.Errorf("given back were the cards of %v, want those of u", gone)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "devices")); err != nil || len(left) > 0 {
			t.Errorf("left is %v, %v, want nothing", left, err)
		}
	})
}

// A chooser is a keeper that chooses early.
type chooser struct{ *device.Keeper }

func (c chooser) Choose(ctx context.Context, pod *v1.Pod, container *v1.Container) error {
	_, err := c.Allocate(ctx, pod, container)
	return err
}

// Devices that can be chosen early are chosen while the image of the container cannot be pulled.
func TestDevicesAreChosenBeforeTheImage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "devices")
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		keeper, err := device.New(device.Config{State: dir, Allocator: &cards{}})
		if err != nil {
			t.Fatal(err)
		}
		n.inject(faults.Fault{Match: faults.Match{Method: critest.PullImage}, Times: faults.Always, Err: status.Error(codes.Unknown, "no registry")})
		src := source.NewPush()
		a := n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Extensions.Devices = chooser{keeper} })
		web := api(pod("", "web", "u", "sleep 600"))
		web.Spec.Containers[0].ImagePullPolicy = v1.PullAlways
		set(t, src, web)
		time.Sleep(time.Minute)
		if w := a.sink.of("u").ContainerStatuses[0].State.Waiting; w == nil || w.Reason != "ImagePullBackOff" {
			t.Errorf("without its image the container waits as %+v", w)
		}
		if kept, err := keeper.KeptPods(); err != nil || !slices.Equal(kept, []types.UID{"u"}) {
			t.Errorf("devices have %v, %v, want those of u", kept, err)
		}
	})
}

// The devices of a pod that was removed while no agent ran are released, even if nothing else is known about the pod.
func TestDevicesOfARemovedPod(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "devices")
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		given := &cards{}
		keeper, err := device.New(device.Config{State: dir, Allocator: given})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keeper.Allocate(t.Context(), pod("", "ghost", "ghost", "exit"), &v1.Container{Name: "app"}); err != nil {
			t.Fatal(err)
		}
		src := source.NewPush()
		n.start([]source.Source{src}, func(c *nodeagent.Config) { c.Sync.Extensions.Devices = keeper })
		time.Sleep(10 * time.Second)
		if gone := given.released(); len(gone) > 0 {
			t.Errorf("the cards of %v were released before the source delivered its pods", gone)
		}
		set(t, src)
		time.Sleep(10 * time.Second)
		if gone := given.released(); !slices.Equal(gone, []types.UID{"ghost"}) {
			t.Errorf("given back were the cards of %v, want those of ghost", gone)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left is %v, %v", left, err)
		}
	})
}
