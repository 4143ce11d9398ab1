package devices

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/device"
)

// A container gets the devices, mounts and variables of its plugins' answers. It keeps them when the container or the
// agent restarts. They are freed when its pod is removed.
func TestContainerIsGivenDevices(t *testing.T) {
	r := newRig(t)
	cards, ports := r.plugin(card), r.plugin(port)
	cards.options = &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true, PreStartRequired: true}
	cards.prefer = func([]string, []string, int) []string { return []string{"c", "nonsense", "c"} }
	cards.allocate = func(ids []string) (*pluginapi.AllocateResponse, error) {
		return answering(&pluginapi.ContainerAllocateResponse{
			Envs: map[string]string{"CARDS": strings.Join(ids, " "), "BOTH": "card"}, Annotations: map[string]string{"vendor.test/card": "yes"},
			Mounts:     []*pluginapi.Mount{{HostPath: "/opt/card", ContainerPath: "/opt/card", ReadOnly: true}},
			Devices:    []*pluginapi.DeviceSpec{{HostPath: "/dev/card-c", ContainerPath: "/dev/card", Permissions: "rw"}},
			CdiDevices: []*pluginapi.CDIDevice{{Name: "vendor.test/card=c"}},
		}), nil
	}
	cards.start("c!").report("a", "b", "c", "d!")
	ports.start("p")
	r.counts(card, 4, 3)
	r.counts(port, 1, 1)

	pod := podOf("web", map[string]int64{card: 2, port: 1, "vendor.test/of-others": 1, "cpu": 3})
	want := device.Allocation{
		Env: map[string]string{"CARDS": "c a", "BOTH": "card", "IDS": "p"}, Annotations: map[string]string{"vendor.test/card": "yes"},
		Mounts:     []device.Mount{{HostPath: "/opt/card", ContainerPath: "/opt/card", ReadOnly: true}},
		Devices:    []device.Device{{HostPath: "/dev/card-c", ContainerPath: "/dev/card", Permissions: "rw"}},
		CDIDevices: []string{"vendor.test/card=c"}, Resources: map[string][]string{card: {"c", "a"}, port: {"p"}},
	}
	for range 2 { // the second call is for a restart of the container
		if got, err := r.allocate(pod, "app"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the allocation is\n%+v, %v, want\n%+v", got, err, want)
		}
	}
	if got, want := cards.journal(), "prefer[a b c] [] 2, allocate[c a], prestart[c a], prestart[c a]"; got != want {
		t.Errorf("the plugin was asked %s, want %s", got, want)
	}

	r.restart()
	r.refused(pod, "app", "the plugin of vendor.test/card has not registered yet, and container \"app\" has its devices [c a]")
	cards.again().start("a", "b", "c", "d")
	ports.again().start("p")
	r.counts(port, 1, 1)
	r.counts(card, 4, 4)
	if got, err := r.allocate(pod, "app"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after a restart of the agent the allocation is\n%+v, %v, want\n%+v", got, err, want)
	}
	other := podOf("other", map[string]int64{card: 1, port: 1})
	r.refused(other, "app", "requested number of devices unavailable for vendor.test/port. Requested: 1, Available: 0")
	must.Do(t, r.RemovePod(t.Context(), pod.UID))
	r.given(other, "app", port, "p")
	must.Do(t, r.RemovePod(t.Context(), other.UID))
	if left, err := os.ReadDir(filepath.Join(r.state, "pods")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A container waits a limited time for a device that another container releases, and for a plugin that reconnects
// (kubernetes #119248).
func TestContainerWaitsForDevices(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card).start("a")
	r.counts(card, 1, 1)
	first, second := podOf("first", map[string]int64{card: 1}), podOf("second", map[string]int64{card: 1})
	r.given(first, "app", card, "a")
	r.refused(second, "app", "Requested: 1, Available: 0")
	r.waitTimeout = patience
	waits := func(pod *v1.Pod, then func()) {
		t.Helper()
		var wg sync.WaitGroup
		wg.Go(func() { r.given(pod, "app", card, "a") })
		time.Sleep(10 * time.Millisecond)
		then()
		wg.Wait()
	}
	waits(second, func() { must.Do(t, r.RemovePod(t.Context(), first.UID)) })
	p.server.Stop()
	r.counts(card, 1, 0)
	must.Do(t, r.RemovePod(t.Context(), second.UID))
	waits(first, func() { r.plugin(card).start("a") })
}

// The status of a container and of the node shows the health of devices. A change of health enqueues the pods that hold
// the devices (KEP-4680). While a plugin is disconnected, the health of its devices is unknown and they are not
// allocated.
func TestHealth(t *testing.T) {
	r := newRig(t)
	told := make(chan types.UID, 100)
	r.Notify(func(uid types.UID) { told <- uid })
	p := r.plugin(card).start("a", "b")
	r.counts(card, 2, 2)
	pod, other := podOf("web", map[string]int64{card: 1}), podOf("other", map[string]int64{card: 1})
	r.given(pod, "app", card, "a")
	r.given(other, "app", card, "b")
	is := func(health v1.ResourceHealthStatus) {
		t.Helper()
		if uid := <-told; uid != pod.UID {
			t.Errorf("%s is notified", uid)
		}
		want := map[string][]v1.ResourceStatus{"app": {{Name: card, Resources: []v1.ResourceHealth{{ResourceID: "a", Health: health}}}}}
		if got := r.Devices(pod); !reflect.DeepEqual(got, want) {
			t.Errorf("devices are %v, want %v", got, want)
		}
	}
	p.report("a!", "b")
	is(v1.ResourceHealthStatusUnhealthy)
	r.counts(card, 2, 1)
	r.refused(pod, "app", `device a of vendor.test/card, which container "app" has, is not healthy`)
	p.report("a!", "b") // nothing new
	p.report("a", "b")
	is(v1.ResourceHealthStatusHealthy)
	must.Do(t, r.RemovePod(t.Context(), other.UID))
	p.server.Stop()
	is(v1.ResourceHealthStatusUnknown)
	r.counts(card, 2, 0)
	r.given(pod, "app", card, "a") // it keeps its earlier device
	if len(r.Devices(podOf("none", nil))) > 0 {
		t.Error("a pod without devices has some")
	}
}

// A plugin that registers again replaces the earlier one, whose disconnect then has no effect.
func TestPluginRegistersAgain(t *testing.T) {
	r := newRig(t)
	before := r.plugin(card).start("a")
	r.counts(card, 1, 1)
	next := r.plugin(card)
	next.endpoint = "next.sock"
	next.start("a", "b")
	r.counts(card, 2, 2)
	before.server.Stop()
	r.given(podOf("web", map[string]int64{card: 1}), "app", card, "a")
	if got := next.journal(); got != "allocate[a]" {
		t.Errorf("the calls to the new plugin: %s", got)
	}
	time.Sleep(20 * time.Millisecond) // time for the first plugin's disconnect, which must not affect the second plugin
	r.counts(card, 2, 2)
}

// After the kubelet's grace period a disconnected plugin has no devices, and its pods are rejected.
func TestPluginStaysUnavailable(t *testing.T) {
	r := newRig(t)
	r.mu.Lock()
	r.ledger = ledger.New(20 * time.Millisecond)
	r.mu.Unlock()
	p := r.plugin(card).start("a", "b!")
	r.counts(card, 2, 1)
	p.server.Stop()
	r.counts(card, 0, 0)
	refused := r.Admit(podOf("web", map[string]int64{card: 1}), nil)
	if refused == nil || refused.Reason != "UnexpectedAdmissionError" ||
		refused.Message != "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices vendor.test/card, which is unexpected" {
		t.Errorf("the pod is rejected with %+v", refused)
	}
	r.refused(podOf("web", map[string]int64{card: 1}), "app", "no plugin has registered vendor.test/card")
}

// If a pod arrives before its plugin has registered with a restarted agent, it waits for the plugin instead of running
// without its device (kubernetes #125579, #133382).
func TestPodAfterARestartWaitsForItsPlugin(t *testing.T) {
	r := newRig(t)
	r.plugin(card).start("a")
	r.counts(card, 1, 1)
	eventually(t, "the devices are written", func() bool {
		known, err := r.known.read()
		return err == nil && reflect.DeepEqual(known, map[string][]string{card: {"a"}})
	})
	r.restart()
	pod, second := podOf("web", map[string]int64{card: 1}), podOf("second", map[string]int64{card: 1})
	if refused := r.Admit(pod, nil); refused != nil {
		t.Errorf("it is rejected: %+v", refused)
	}
	if refused := r.Admit(second, []*v1.Pod{pod}); refused == nil || !strings.Contains(refused.Message, "Requested: 1, Available: 0") {
		t.Errorf("a second pod for the same device: %+v", refused)
	}
	r.counts(card, 0, 0)
	r.refused(pod, "app", "the plugin of vendor.test/card has not registered yet")
	r.plugin(card).start("a")
	r.counts(card, 1, 1)
	r.given(pod, "app", card, "a")
}

// A container whose devices an earlier agent has allocated restarts while its plugin is away, as with a kubelet, if the device nodes
// exist. Without them, or if the plugin reports them as unhealthy, it waits.
func TestR1_RestartsWhileItsPluginIsAway(t *testing.T) {
	r := newRig(t)
	node := filepath.Join(t.TempDir(), "card-a")
	must.Do(t, os.WriteFile(node, nil, 0o600))
	p := r.plugin(card)
	p.allocate = func([]string) (*pluginapi.AllocateResponse, error) {
		return answering(&pluginapi.ContainerAllocateResponse{Devices: []*pluginapi.DeviceSpec{{HostPath: node, ContainerPath: "/dev/card", Permissions: "rw"}}}), nil
	}
	p.start("a")
	r.counts(card, 1, 1)
	pod := podOf("web", map[string]int64{card: 1})
	before := r.given(pod, "app", card, "a")
	p.server.Stop()
	r.restart()
	if again := r.given(pod, "app", card, "a"); !reflect.DeepEqual(again, before) {
		t.Errorf("after the restart it has %+v, and had %+v", again, before)
	}
	must.Do(t, os.Remove(node))
	r.refused(pod, "app", "the plugin of vendor.test/card has not registered yet")
	must.Do(t, os.WriteFile(node, nil, 0o600))
	p.again().start("a!")
	r.counts(card, 1, 0)
	r.refused(pod, "app", "is not healthy")
}

// While the list of resources cannot be written, none of their devices is allocated: the next agent would start
// containers without them.
func TestResourcesThatCannotBeWritten(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.state, "resources.json")
	must.Do(t, os.MkdirAll(filepath.Join(file, "in-the-way"), 0o700))
	r.plugin(card).start("a")
	r.counts(card, 1, 1)
	pod := podOf("web", map[string]int64{card: 1})
	r.refused(pod, "app", "list of resources for the next agent: rename "+filepath.Join(r.state, ".resources.json.tmp"))
	r.given(podOf("none", nil), "app", card, "")
	eventually(t, "nothing else is left", func() bool { // the plugin's report may be written at the same time
		_, err := os.Lstat(filepath.Join(r.state, ".resources.json.tmp"))
		return errors.Is(err, os.ErrNotExist)
	})
	must.Do(t, os.RemoveAll(file))
	r.given(pod, "app", card, "a")
	if known, err := r.known.read(); err != nil || !reflect.DeepEqual(known, map[string][]string{card: {"a"}}) {
		t.Errorf("the file has %v, %v", known, err)
	}
}

// A failed write of the list of resources is retried, even if no pod arrives.
func TestResourcesAreWrittenLater(t *testing.T) {
	r := newRig(t)
	r.end()
	r.saveRetryPause = time.Millisecond
	r.run()
	file := filepath.Join(r.state, "resources.json")
	must.Do(t, os.MkdirAll(filepath.Join(file, "in-the-way"), 0o700))
	r.plugin(card).start("a")
	r.counts(card, 1, 1)
	eventually(t, "that has failed", func() bool {
		r.known.mu.Lock()
		defer r.known.mu.Unlock()
		return r.known.failed
	})
	must.Do(t, os.RemoveAll(file))
	eventually(t, "the devices are written", func() bool {
		known, err := r.known.read()
		return err == nil && reflect.DeepEqual(known, map[string][]string{card: {"a"}})
	})
}

// Invalid registrations are rejected, and do not affect other plugins.
func TestBadRegistrations(t *testing.T) {
	r := newRig(t)
	good := r.plugin(card).start("a")
	r.counts(card, 1, 1)
	must.Do(t, os.Symlink(filepath.Join(r.dir, good.endpoint), filepath.Join(r.dir, "link.sock")))
	must.Do(t, os.WriteFile(filepath.Join(r.dir, "file"), nil, 0o600))
	for _, tc := range []struct {
		version, resource, endpoint, want string
	}{
		{"v1alpha", "a.test/x", "x.sock", `version is "v1alpha"`},
		{"", "a.test/x", "x.sock", `version is ""`},
		{"v1beta1", "a.test/x", "", `endpoint is ""`},
		{"v1beta1", "a.test/x", "../x.sock", `endpoint is "../x.sock"`},
		{"v1beta1", "a.test/x", "/run/x.sock", `endpoint is "/run/x.sock"`},
		{"v1beta1", "a.test/x", "..", `endpoint is ".."`},
		{"v1beta1", "a.test/x", "kubelet.sock", `endpoint is "kubelet.sock"`},
		{"v1beta1", "a.test/x", "x\x00.sock", `endpoint is "x\x00.sock"`},
		{"v1beta1", "a.test/x", "none.sock", `endpoint is "none.sock": no socket of that name`},
		{"v1beta1", "a.test/x", "link.sock", `endpoint is "link.sock": no socket of that name`},
		{"v1beta1", "a.test/x", "file", `endpoint is "file": no socket of that name`},
		{"v1beta1", "", good.endpoint, `resource_name is ""`},
		{"v1beta1", "cpu", good.endpoint, `resource_name is "cpu": want the domain of a vendor`},
		{"v1beta1", "kubernetes.io/x", good.endpoint, `resource_name is "kubernetes.io/x"`},
		{"v1beta1", "requests.a.test/x", good.endpoint, `resource_name is "requests.a.test/x"`},
		{"v1beta1", "a.test/x/y", good.endpoint, `resource_name is "a.test/x/y"`},
		{"v1beta1", "a.test/$(x)", good.endpoint, `resource_name is "a.test/$(x)"`},
		{"v1beta1", "a.test/" + strings.Repeat("x", 64), good.endpoint, "no more than 63"},
	} {
		p := r.plugin(tc.resource)
		p.endpoint = tc.endpoint
		if err := p.register(tc.version); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	deaf := r.plugin("a.test/x")
	deaf.optionsE = errors.New("it has none")
	deaf.serve()
	if err := deaf.register("v1beta1"); err == nil || !strings.Contains(err.Error(), "failed to get device plugin options: rpc error: code = Unknown desc = it has none") {
		t.Errorf("a plugin that fails to return its options: %v", err)
	}
	if all, _ := r.Capacity(); len(all) != 1 {
		t.Errorf("resources are %v", all)
	}
	r.given(podOf("web", map[string]int64{card: 1}), "app", card, "a")
}

// If a plugin's answer is invalid, the container is not created, and its devices are free for other containers.
func TestBadPlugins(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs)
	for name, tc := range map[string]struct {
		allocate func() (*pluginapi.AllocateResponse, error)
		want     string
		hangs    bool
	}{
		"it fails":    {func() (*pluginapi.AllocateResponse, error) { return nil, errors.New("no power") }, "Allocate of the plugin of vendor.test/port: rpc error: code = Unknown desc = no power", false},
		"no response": {func() (*pluginapi.AllocateResponse, error) { return answering(), nil }, "it has 0 container_responses, want one", false},
		"too many":    {func() (*pluginapi.AllocateResponse, error) { return answering(nil, nil), nil }, "it has 2 container_responses, want one", false},
		"it does not answer (kubernetes #129249)": {func() (*pluginapi.AllocateResponse, error) { <-hangs; return nil, nil }, "code = DeadlineExceeded", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.plugin(port)
			p.allocate = func([]string) (*pluginapi.AllocateResponse, error) { return tc.allocate() }
			p.start("p")
			r.plugin(card).start("a")
			r.counts(port, 1, 1)
			r.counts(card, 1, 1)
			if tc.hangs {
				r.callTimeout = 200 * time.Millisecond
			}
			both := podOf("web", map[string]int64{card: 1, port: 1}) // the card is allocated first
			for p.journal() == "" {                                  // on a busy machine the call may time out first
				r.refused(both, "app", tc.want)
			}
			r.callTimeout = callTimeout
			if got := r.Devices(both); len(got) > 0 {
				t.Errorf("it has %v", got)
			}
			r.given(podOf("other", map[string]int64{card: 1}), "app", card, "a")
			next := r.plugin(port) // a working plugin replaces it
			next.endpoint = "next.sock"
			next.start("p")
			r.counts(port, 1, 1)
			r.given(podOf("another", map[string]int64{port: 1}), "app", port, "p")
		})
	}
}

// If no container can be created from an answer, the error names the invalid field.
func TestAnswersThatCannotBe(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	p.allocate = func([]string) (*pluginapi.AllocateResponse, error) {
		return answering(&pluginapi.ContainerAllocateResponse{Mounts: []*pluginapi.Mount{{HostPath: "/opt/../etc", ContainerPath: "/etc"}}}), nil
	}
	p.start("a")
	r.counts(card, 1, 1)
	r.refused(podOf("web", map[string]int64{card: 1}), "app", `mounts[0].hostPath is "/opt/../etc"`)
}

// An answer that is too large for the next agent to read is rejected, and other pods get devices after a restart. An
// answer of 4 MiB, the maximum, exceeds that size when it is encoded as JSON.
func TestAnswerThatIsTooLargeToKeep(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	p.allocate = func([]string) (*pluginapi.AllocateResponse, error) {
		return answering(&pluginapi.ContainerAllocateResponse{Annotations: map[string]string{"a": strings.Repeat("<", 1<<20)}}), nil
	}
	p.start("a")
	r.counts(card, 1, 1)
	r.refused(podOf("web", map[string]int64{card: 1}), "app", "and 4194304 is the most")
	r.restart()
	r.plugin(card).start("a")
	r.counts(card, 1, 1)
	r.given(podOf("other", map[string]int64{card: 1}), "app", card, "a")
}

// A plugin that closes its stream has no devices until it registers again. Devices without an ID are ignored.
func TestPluginClosesItsStream(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card).start("a", "", "b")
	r.counts(card, 2, 2)
	close(p.closing)
	r.counts(card, 2, 0)
	p.again().start("a", "b")
	r.counts(card, 2, 2)
}

// If a plugin requires PreStartContainer, the container does not start while that call fails.
func TestPreStart(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	p.options, p.preStart = &pluginapi.DevicePluginOptions{PreStartRequired: true}, errors.New("it cannot be reset")
	p.start("a")
	r.counts(card, 1, 1)
	pod := podOf("web", map[string]int64{card: 1})
	if _, err := r.allocate(pod, "app"); err == nil || !strings.Contains(err.Error(), "PreStartContainer of the plugin of vendor.test/card: rpc error: code = Unknown desc = it cannot be reset") {
		t.Errorf("error is %v", err)
	}
	if got := p.journal(); got != "allocate[a], prestart[a]" {
		t.Errorf("the plugin was asked %s", got)
	}
}

// While another agent serves the directory, nothing in it is removed. Otherwise only sockets are removed.
func TestDirectoryOfPlugins(t *testing.T) {
	r := newRig(t)
	r.plugin(card).start("a")
	r.counts(card, 1, 1)
	second, err := New(Config{State: filepath.Join(t.TempDir(), "state"), Directory: r.dir})
	must.Do(t, err)
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), filepath.Join(r.dir, "kubelet.sock")+" is served by a kubelet or another agent") {
		t.Errorf("a second one: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.Run(ended); err != nil {
		t.Errorf("a second one whose context has ended: %v", err)
	}
	conn, err := net.Dial("unix", filepath.Join(r.dir, "kubelet.sock"))
	if err != nil {
		t.Fatalf("a second one whose context has ended took the socket: %v", err)
	}
	must.Do(t, conn.Close())
	r.given(podOf("web", map[string]int64{card: 1}), "app", card, "a")
	elsewhere := must.Get(net.Listen("unix", r.dir+"-of-others.sock"))(t)
	defer elsewhere.Close()
	must.Do(t, os.Symlink(r.dir+"-of-others.sock", filepath.Join(r.dir, "link")))
	must.Do(t, os.WriteFile(filepath.Join(r.dir, "kubelet_internal_checkpoint"), nil, 0o600))
	must.Do(t, os.Mkdir(filepath.Join(r.dir, "vendor"), 0o700))
	r.restart()
	entries, err := os.ReadDir(r.dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := fmt.Sprint(names, err), "[kubelet.sock kubelet_internal_checkpoint link vendor] <nil>"; got != want {
		t.Errorf("after a restart the directory has %s, want %s", got, want)
	}
	if _, err := os.Stat(r.dir + "-of-others.sock"); err != nil {
		t.Error(err)
	}
	r.end()
	r.run() // the same manager runs again
	r.plugin(card).start("a", "b")
	r.counts(card, 2, 2)
}

// If the agent cannot determine whether a process serves the socket, it removes nothing.
func TestDirectoryOfPluginsThatCannotBeAsked(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card).start("a")
	r.counts(card, 1, 1)
	r.end()
	must.Do(t, os.Symlink("kubelet.sock", filepath.Join(r.dir, "kubelet.sock"))) // connecting fails with ELOOP, not because the socket has no server
	if err := r.Run(t.Context()); !errors.Is(err, syscall.ELOOP) || !strings.Contains(err.Error(), "check whether a process serves") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Lstat(filepath.Join(r.dir, p.endpoint)); err != nil {
		t.Errorf("the socket of a plugin was removed: %v", err)
	}
}

// While the allocation of one pod cannot be read, no other pod gets a device that this pod may hold.
func TestFileThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	r.plugin(card).start("a", "b")
	r.counts(card, 2, 2)
	pod, other := podOf("web", map[string]int64{card: 1}), podOf("other", map[string]int64{card: 1})
	r.given(pod, "app", card, "a")
	file := filepath.Join(r.state, "pods", string(pod.UID)+".json")
	text := must.Get(os.ReadFile(file))(t)
	must.Do(t, os.WriteFile(file, text[:len(text)/2], 0o600))
	r.restart()
	r.plugin(card).start("a", "b")
	r.counts(card, 2, 2)
	r.refused(pod, "app", "what pod uid-web was given, below "+r.state)
	r.refused(other, "app", "another pod may have any of the devices: pod uid-web")
	must.Do(t, r.RemovePod(t.Context(), pod.UID))
	r.given(other, "app", card, "a")

	r.end()
	file = filepath.Join(r.state, "resources.json")
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1,"resources":{"cpu":[]}}`} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := New(Config{State: r.state, Directory: r.dir}); err == nil || !strings.Contains(err.Error(), file+", the list of device plugins") {
			t.Errorf("%q: %v", text, err)
		}
	}
	must.Do(t, os.Truncate(file, 1<<40))
	if _, err := New(Config{State: r.state, Directory: r.dir}); err == nil || !strings.Contains(err.Error(), "not a regular file of at most 16777216 bytes") {
		t.Errorf("a file of a terabyte: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		`Config.State is ""`:      {},
		`Config.State is "x"`:     {State: "x"},
		`Config.Directory is "x"`: {State: "/x", Directory: "x"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	if m, err := New(Config{State: filepath.Join(t.TempDir(), "none")}); err != nil || m.config.Directory != DefaultDirectory {
		t.Errorf("by default the directory is %v, %v", m, err)
	}
}

// Equal values of several plugins are merged. If they differ, the first wins, and the reported conflict does not
// contain the values.
func TestMerge(t *testing.T) {
	response := func(path, value string) *pluginapi.ContainerAllocateResponse {
		return &pluginapi.ContainerAllocateResponse{
			Envs: map[string]string{"A": value, "SAME": "1"}, Annotations: map[string]string{"a": value, "same": "1"},
			Mounts:     []*pluginapi.Mount{{HostPath: path, ContainerPath: "/m"}, {HostPath: "/same", ContainerPath: "/same"}},
			Devices:    []*pluginapi.DeviceSpec{{HostPath: path, ContainerPath: "/d", Permissions: "r"}, {HostPath: "/same", ContainerPath: "/same", Permissions: "r"}},
			CdiDevices: []*pluginapi.CDIDevice{{Name: "v/c=same"}, {Name: "v/c=" + value}},
		}
	}
	got, conflicts := merge([]answer{{"x", []string{"1"}, response("/x", "one")}, {"y", []string{"2"}, response("/y", "two")}, {"z", []string{"3"}, nil}})
	want := device.Allocation{
		Env: map[string]string{"A": "one", "SAME": "1"}, Annotations: map[string]string{"a": "one", "same": "1"},
		Mounts:     []device.Mount{{HostPath: "/x", ContainerPath: "/m"}, {HostPath: "/same", ContainerPath: "/same"}},
		Devices:    []device.Device{{HostPath: "/x", ContainerPath: "/d", Permissions: "r"}, {HostPath: "/same", ContainerPath: "/same", Permissions: "r"}},
		CDIDevices: []string{"v/c=same", "v/c=one", "v/c=two"}, Resources: map[string][]string{"x": {"1"}, "y": {"2"}, "z": {"3"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("merged:\n%+v, want\n%+v", got, want)
	}
	if got, want := strings.Join(conflicts, "; "), `device "/d", which is not the one of y; mount "/m", which is not the one of y; variable "A", which is not the one of y; annotation "a", which is not the one of y`; got != want {
		t.Errorf("conflicts:\n%s, want\n%s", got, want)
	}
}
