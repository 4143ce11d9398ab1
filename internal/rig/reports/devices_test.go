//go:build linux

package reports

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/device"
)

// plugin has one device, and may be down.
type plugin struct {
	mu       sync.Mutex
	down     bool
	holder   types.UID
	requests int
}

func (p *plugin) set(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *plugin) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func (p *plugin) Allocate(_ context.Context, pod *v1.Pod, container *v1.Container) (device.Allocation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if container.Resources.Limits.Name("example.com/dev", "").IsZero() {
		return device.Allocation{}, nil
	}
	p.requests++
	if p.down || p.holder != "" && p.holder != pod.UID {
		return device.Allocation{}, errors.New("no healthy devices present")
	}
	p.holder = pod.UID
	return device.Allocation{Env: map[string]string{"DEVICE": "1"}, Resources: map[string][]string{"example.com/dev": {"1"}}}, nil
}

func (p *plugin) Release(_ context.Context, pod types.UID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder == pod {
		p.holder = ""
	}
	return nil
}

// withPlugin gives agents a Keeper of the plugin's device.
func withPlugin(t *testing.T, p *plugin) func(*agent.Config) {
	dir := t.TempDir()
	return func(c *agent.Config) {
		keeper, err := device.New(device.Config{State: dir, Allocator: p})
		if err != nil {
			t.Fatal(err)
		}
		c.Sync.Extensions.Devices = keeper
	}
}

const withDevice = `resources: {limits: {example.com/dev: 1}}`

// A restart of the agent and of the machine while the plugin is down: what runs keeps running, and what restarts keeps its device.
func TestDeviceWhileThePluginIsDown(t *testing.T) {
	p := &plugin{}
	on(t, critest.Config{}, withPlugin(t, p), func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {initContainers: [{name: init, command: ["true"], ` + withDevice + `}], containers: [
 {name: app, command: [sh, -c, "echo $DEVICE > /dev/termination-log; sleep infinity"], ` + withDevice + `}]}}`)
		time.Sleep(time.Minute)
		p.set(true)
		n.restart(time.Minute)
		time.Sleep(10 * time.Minute)
		n.want(len(n.runs("app")), 1, "runs after a restart of the agent")
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
		if err := n.ExitContainer(n.runs("app")[0].ContainerID, critest.Exit{Code: 1}); err != nil {
			n.Fatal(err)
		}
		time.Sleep(time.Minute)
		n.want(n.of("a", "app").State.Running != nil, true, "it restarts without the plugin")
		n.want(n.last("a", "app").Message, "1\n", "its device")
		n.want(len(n.runs("init")), 1, "runs of the init container")
	})
}

// A pod that has ended is not judged again by a plugin that has no device for it.
func TestEndedPodNeedsNoDevice(t *testing.T) {
	p := &plugin{}
	on(t, critest.Config{}, withPlugin(t, p), func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {restartPolicy: Never, containers: [{name: app, command: [sleep, "5"], ` + withDevice + `}]}}`)
		time.Sleep(time.Minute)
		n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
		p.set(true)
		n.restart(time.Minute)
		time.Sleep(10 * time.Minute)
		n.want(n.status("a").Phase, v1.PodSucceeded, "phase")
		n.want(len(n.runs("app")), 1, "runs")
		p.set(false)
		n.apply(`{metadata: {name: b}, spec: {containers: [{name: next, command: [server], ` + withDevice + `}]}}`)
		time.Sleep(10 * time.Minute)
		n.want(n.status("b").Phase, v1.PodRunning, "phase of a pod that gets the device of the ended one")
	})
}

// A new pod waits for a plugin that is down, with growing pauses, and starts when it is back.
func TestNewPodWaitsForThePlugin(t *testing.T) {
	p := &plugin{down: true}
	on(t, critest.Config{}, withPlugin(t, p), func(n *node) {
		n.apply(`{metadata: {name: a}, spec: {containers: [{name: app, command: [server], ` + withDevice + `}]}}`)
		time.Sleep(30 * time.Minute)
		n.want(n.status("a").Phase, v1.PodPending, "phase")
		n.want(p.count() < 20, true, "requests in 30 minutes")
		n.wantIn(n.waits("a", "app").Message, "no healthy devices", "message")
		p.set(false)
		time.Sleep(6 * time.Minute)
		n.want(n.status("a").Phase, v1.PodRunning, "phase")
	})
}
