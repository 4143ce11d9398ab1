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
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/device"
)

const (
	card = "vendor.test/card"
	port = "vendor.test/port"
	// patience is the maximum wait for something that should happen at once; busy machines need it.
	patience = time.Minute
)

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A rig runs a manager. Its directories outlive the manager.
type rig struct {
	*Manager
	t          *testing.T
	dir, state string
	end        func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins") // short, because socket paths are limited
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, dir: dir, state: filepath.Join(t.TempDir(), "state")}
	r.start()
	return r
}

// start runs the next manager, and waits until plugins can register.
func (r *rig) start() {
	r.t.Helper()
	r.Manager = must.Get(New(Config{State: r.state, Directory: r.dir}))(r.t)
	r.waitTimeout = 50 * time.Millisecond
	r.run()
}

func (r *rig) run() {
	r.t.Helper()
	r.end = must.Run(r.t, r.Run)
	eventually(r.t, "the manager's socket is there", func() bool {
		conn, err := net.Dial("unix", filepath.Join(r.dir, socketName))
		return err == nil && conn.Close() == nil
	})
}

// restart replaces the manager.
func (r *rig) restart() {
	r.t.Helper()
	r.end()
	r.start()
}

// counts waits until the resource has this capacity and allocatable.
func (r *rig) counts(resource string, capacity, allocatable int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("there are %d of %s, %d to give", capacity, resource, allocatable), func() bool {
		all, healthy := r.Capacity()
		a, known := all[v1.ResourceName(resource)]
		h := healthy[v1.ResourceName(resource)]
		return known && a.Value() == capacity && h.Value() == allocatable
	})
}

func (r *rig) allocate(pod *v1.Pod, container string) (device.Allocation, error) {
	return r.Allocate(r.t.Context(), pod, containerOf(pod, container))
}

// given fails unless the container is allocated devices with these IDs.
func (r *rig) given(pod *v1.Pod, container, resource, ids string) device.Allocation {
	r.t.Helper()
	got, err := r.allocate(pod, container)
	if err != nil || strings.Join(got.Resources[resource], " ") != ids {
		r.t.Errorf("%s of %s: allocated %v, %v, want %s of %s", container, pod.Name, got.Resources, err, ids, resource)
	}
	return got
}

// refused fails unless the allocation fails with an error that contains words.
func (r *rig) refused(pod *v1.Pod, container, words string) {
	r.t.Helper()
	if got, err := r.allocate(pod, container); err == nil || !strings.Contains(err.Error(), words) || !reflect.DeepEqual(got, device.Allocation{}) {
		r.t.Errorf("%s of %s: allocated %+v, %v, want an error with %q", container, pod.Name, got, err, words)
	}
}

func containerOf(pod *v1.Pod, name string) *v1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// podOf returns a pod with a container app that requests these numbers of resources.
func podOf(name string, wants map[string]int64) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}}}}
	pod.Namespace, pod.Name, pod.UID = "ns", name, types.UID("uid-"+name)
	for resourceName, n := range wants {
		pod.Spec.Containers[0].Resources.Limits[v1.ResourceName(resourceName)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return pod
}

// A fakePlugin is a device plugin. Its behaviour may be changed before it is started.
type fakePlugin struct {
	pluginapi.UnimplementedDevicePluginServer
	t                  *testing.T
	dir, resource      string
	endpoint           string
	options            *pluginapi.DevicePluginOptions
	allocate           func(ids []string) (*pluginapi.AllocateResponse, error)
	prefer             func(available, must []string, n int) []string
	preStart, optionsE error
	asked              func(context.Context) // before the options are returned

	server  *grpc.Server
	reports chan []*pluginapi.Device

	mu      sync.Mutex
	calls   []string
	closing chan struct{}
}

func (r *rig) plugin(resource string) *fakePlugin {
	return &fakePlugin{t: r.t, dir: r.dir, resource: resource, endpoint: strings.ReplaceAll(resource, "/", "_") + ".sock", options: &pluginapi.DevicePluginOptions{}}
}

// start serves the plugin, registers it, and reports devices with these IDs.
func (p *fakePlugin) start(ids ...string) *fakePlugin {
	p.t.Helper()
	p.serve()
	must.Do(p.t, p.register(pluginapi.Version))
	p.report(ids...)
	return p
}

// again returns the plugin after a restart, with the same settings.
func (p *fakePlugin) again() *fakePlugin {
	return &fakePlugin{t: p.t, dir: p.dir, resource: p.resource, endpoint: p.endpoint, options: p.options, allocate: p.allocate, prefer: p.prefer}
}

func (p *fakePlugin) serve() {
	p.t.Helper()
	path := filepath.Join(p.dir, p.endpoint)
	_ = os.Remove(path)
	l := must.Get(net.Listen("unix", path))(p.t)
	p.reports, p.closing, p.server = make(chan []*pluginapi.Device, 10), make(chan struct{}), grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(p.server, p)
	go func() { _ = p.server.Serve(l) }()
	p.t.Cleanup(p.server.Stop)
}

func (p *fakePlugin) register(version string) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(p.dir, socketName), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.Do(p.t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{Version: version, Endpoint: p.endpoint, ResourceName: p.resource, Options: p.options})
	return err
}

// report reports devices. Those whose ID ends with an exclamation mark are unhealthy.
func (p *fakePlugin) report(ids ...string) {
	var all []*pluginapi.Device
	for _, id := range ids {
		d := &pluginapi.Device{Health: pluginapi.Healthy}
		id, ill := strings.CutSuffix(id, "!")
		if ill {
			d.Health = pluginapi.Unhealthy
		}
		if d.ID = id; strings.Contains(id, "numa") {
			d.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: 0}, {ID: 1}}}
		}
		all = append(all, d)
	}
	p.reports <- all
}

func (p *fakePlugin) called(call string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call+fmt.Sprint(args...))
}

// journal returns the calls since the last journal.
func (p *fakePlugin) journal() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := strings.Join(p.calls, ", ")
	p.calls = nil
	return all
}

func (p *fakePlugin) GetDevicePluginOptions(ctx context.Context, _ *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	if p.asked != nil {
		p.asked(ctx)
	}
	return p.options, p.optionsE
}

func (p *fakePlugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-p.closing:
			return errors.New("it closes the stream")
		case all := <-p.reports:
			if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: all}); err != nil {
				return err
			}
		}
	}
}

func (p *fakePlugin) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	r := req.GetContainerRequests()[0]
	p.called("prefer", r.GetAvailableDeviceIDs(), r.GetMustIncludeDeviceIDs(), r.GetAllocationSize())
	ids := p.prefer(r.GetAvailableDeviceIDs(), r.GetMustIncludeDeviceIDs(), int(r.GetAllocationSize()))
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: ids}}}, nil
}

func (p *fakePlugin) Allocate(ctx context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	ids := req.GetContainerRequests()[0].GetDevicesIds()
	p.called("allocate", ids)
	if p.allocate != nil {
		return p.allocate(ids)
	}
	return answering(&pluginapi.ContainerAllocateResponse{Envs: map[string]string{"IDS": strings.Join(ids, " ")}}), nil
}

func answering(responses ...*pluginapi.ContainerAllocateResponse) *pluginapi.AllocateResponse {
	return &pluginapi.AllocateResponse{ContainerResponses: responses}
}

func (p *fakePlugin) PreStartContainer(_ context.Context, req *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	p.called("prestart", req.GetDevicesIds())
	return &pluginapi.PreStartContainerResponse{}, p.preStart
}
