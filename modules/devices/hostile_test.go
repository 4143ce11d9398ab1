package devices

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A plugin chooses the texts of its errors. The agent truncates them where it repeats them, and does not receive very
// long ones.
func TestErrorsOfPluginsAreBounded(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	text := strings.Repeat("x", 2*maxText)
	p.allocate = func([]string) (*pluginapi.AllocateResponse, error) { return nil, errors.New(text) }
	p.start("a")
	r.counts(card, 1, 1)
	for _, text = range []string{text, strings.Repeat("x", 1<<20)} {
		_, err := r.allocate(podOf("web", map[string]int64{card: 1}), "app")
		if err == nil || !strings.Contains(err.Error(), "Allocate of the plugin of "+card) || len(err.Error()) > maxText+200 {
			t.Errorf("an error of %d bytes: %.300v", len(text), err)
		}
		if received := strings.Contains(fmt.Sprint(err), "xxxx"); received != (len(text) < maxHeaders) {
			t.Errorf("an error of %d bytes is received: %v", len(text), received)
		}
	}
	refused := r.plugin(port)
	refused.optionsE = errors.New(strings.Repeat("x", 2*maxText))
	refused.serve()
	if err := refused.register(pluginapi.Version); err == nil || len(err.Error()) > maxText+300 {
		t.Errorf("the error of a registration has %d bytes", len(fmt.Sprint(err)))
	}
	refused.resource = strings.Repeat("x", 1<<10)
	if err := refused.register(strings.Repeat("x", 1<<10)); err == nil || len(err.Error()) > 400 {
		t.Errorf("the error for a long version has %d bytes", len(fmt.Sprint(err)))
	}
}

// The Node lists each resource that a plugin has registered, so their number is limited. Registrations above the rate
// limit are rejected without a line in the log.
func TestRegistrationsAreBounded(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	p.serve()
	service := registration{m: r.Manager, ctx: t.Context()}
	register := func(resource string) error {
		_, err := service.Register(t.Context(), &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: p.endpoint, ResourceName: resource})
		return err
	}
	for i := range maxResources {
		must.Do(t, register(card+strconv.Itoa(i)))
	}
	if err := register(card); err == nil || !strings.Contains(err.Error(), "there are 256 resources already") {
		t.Errorf("resource %d: %v", maxResources+1, err)
	}
	if err := register(card + "0"); err != nil {
		t.Errorf("a resource that is registered already: %v", err)
	}
	m := must.Get(New(Config{State: t.TempDir(), Directory: r.dir, Log: funcr.New(func(_, line string) { t.Errorf("a line in the log: %s", line) }, funcr.Options{})}))(t)
	if !m.registrations.AllowN(time.Now(), registrationBurst) {
		t.Errorf("the limit is below %d registrations at once", registrationBurst)
	}
	service.m = m
	if err := register(card); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a registration too many: %v", err)
	}
}

// restless is a plugin that sends reports without end.
type restless struct {
	pluginapi.DevicePluginClient
	grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse]
	ctx     context.Context
	reports int
}

func (r *restless) ListAndWatch(ctx context.Context, _ *pluginapi.Empty, _ ...grpc.CallOption) (grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse], error) {
	r.ctx = ctx
	return r, nil
}

func (r *restless) Recv() (*pluginapi.ListAndWatchResponse, error) {
	r.reports++
	if r.reports > 10*reportBurst {
		return nil, errors.New("all are read")
	}
	return &pluginapi.ListAndWatchResponse{Devices: []*pluginapi.Device{{ID: strconv.Itoa(r.reports)}}}, r.ctx.Err()
}

// The manager limits the rate at which it reads the reports of a plugin.
func TestEndlessReportsAreRead(t *testing.T) {
	state, directory := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m := must.Get(New(Config{State: state, Directory: directory}))(t)
		endless := &restless{}
		p := &plugin{resource: card, api: endless}
		m.plugins[card] = p
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+pause/2)
		defer cancel()
		if err := m.watch(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if least, most := reportBurst+59, reportBurst+62; endless.reports < least || endless.reports > most {
			t.Errorf("%d reports are read in a minute, want %d to %d", endless.reports, least, most)
		}
	})
}

// countedConn counts the bytes that a plugin sends.
type countedConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

type countedListener struct {
	net.Listener
	sent *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countedConn{conn, l.sent}, err
}

// A plugin whose reports are not read can send as much as the window allows, which does not grow.
func TestReportsThatAreNotReadWait(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	listener := must.Get(net.Listen("unix", filepath.Join(r.dir, p.endpoint)))(t)
	sent, server := &atomic.Int64{}, grpc.NewServer()
	p.reports = make(chan []*pluginapi.Device, 100)
	for range cap(p.reports) {
		p.reports <- []*pluginapi.Device{{ID: strings.Repeat("x", 1<<20)}}
	}
	pluginapi.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(countedListener{listener, sent}) }()
	t.Cleanup(server.Stop)
	dialed := must.Get(r.dial(t.Context(), card, filepath.Join(r.dir, p.endpoint)))(t)
	defer dialed.conn.Close()
	must.Get(dialed.api.ListAndWatch(t.Context(), &pluginapi.Empty{}))(t)
	eventually(t, "the window is full", func() bool { return sent.Load() >= window })
	time.Sleep(200 * time.Millisecond) // a window that grows does so in a round trip
	if got := sent.Load(); got > window+maxHeaders {
		t.Errorf("the plugin has sent %d bytes, want %d at most", got, window+maxHeaders)
	}
}

// The manager ignores the devices of a report that exceed the limit, and writes one line to the log for all of them.
func TestReportsAreBounded(t *testing.T) {
	lines := 0
	m := must.Get(New(Config{State: t.TempDir(), Directory: t.TempDir(), Log: funcr.New(func(_, _ string) { lines++ }, funcr.Options{})}))(t)
	p := &plugin{resource: card}
	m.plugins[card] = p
	devices := make([]*pluginapi.Device, 100, 100+2*maxDevices)
	for i := range 2 * maxDevices {
		devices = append(devices, &pluginapi.Device{ID: strconv.Itoa(i), Topology: &pluginapi.TopologyInfo{Nodes: make([]*pluginapi.NUMANode, 2*maxNodes)}})
	}
	m.report(p, devices)
	if all, _ := m.ledger.Count(card, time.Now()); all != maxDevices || lines != 2 {
		t.Errorf("%d devices and %d lines in the log, want %d and 2", all, lines, maxDevices)
	}
	if nodes := m.ledger.Device(card, "0").NUMANodes; len(nodes) != maxNodes {
		t.Errorf("a device has %d NUMA nodes, want %d", len(nodes), maxNodes)
	}
}

const _ = uint(maxKnown - devicePool - maxResources*(resourceShare+1<<10)) // the devices of all resources fit in the file

// A plugin with many names takes neither the devices of others nor the file in which all are listed.
func TestDevicesOfAllPluginsAreBounded(t *testing.T) {
	m, err := New(Config{State: t.TempDir(), Directory: t.TempDir()})
	must.Do(t, err)
	report := func(resource string, devices int) {
		p := &plugin{resource: resource}
		m.plugins[resource] = p
		var all []*pluginapi.Device
		for i := range devices {
			all = append(all, &pluginapi.Device{ID: fmt.Sprintf("%s%06d", strings.Repeat("<", 500), i), Health: pluginapi.Healthy})
		}
		m.report(p, all)
	}
	count := func(resource string) int {
		all, _ := m.ledger.Count(resource, time.Now())
		return all
	}
	report("vendor.test/before", 8)
	const names, most = 8, 1000
	hostile := 0
	for i := range names {
		report(fmt.Sprint("hostile.test/", i), most)
		hostile += count(fmt.Sprint("hostile.test/", i))
	}
	report("vendor.test/after", 8)
	if before, after := count("vendor.test/before"), count("vendor.test/after"); before != 8 || after != 8 {
		t.Errorf("%d and %d devices, want 8 each", before, after)
	}
	if hostile < most || hostile > names*most/2 {
		t.Errorf("%d devices of one plugin with %d names, want as many as the pool has room for", hostile, names)
	}
	known, err := m.known.read()
	must.Do(t, err)
	if len(known) != names+2 {
		t.Errorf("%d resources are written, want %d", len(known), names+2)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal([]byte, any) error   { return nil }

// serveRaw serves a plugin of a resource whose reports are the given message, and registers it.
func (r *rig) serveRaw(resource string, report []byte) {
	r.t.Helper()
	p := r.plugin(resource)
	listener := must.Get(net.Listen("unix", filepath.Join(r.dir, p.endpoint)))(r.t)
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); strings.HasSuffix(method, "/GetDevicePluginOptions") {
			return stream.SendMsg([]byte{})
		}
		if err := stream.SendMsg(report); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}))
	go func() { _ = server.Serve(listener) }()
	r.t.Cleanup(server.Stop)
	must.Do(r.t, p.register(pluginapi.Version))
}

// Plugins whose reports are not UTF-8, no message or too large are disconnected. Devices with long IDs are left out. A plugin that
// answers no Allocate delays its own containers. Another plugin's devices are given meanwhile.
func TestHostilePluginsDelayNoOthers(t *testing.T) {
	r := newRig(t)
	for name, report := range map[string][]byte{
		"utf8":    {0x0a, 4, 0x0a, 2, 0xff, 0xfe}, // a device with an ID of two bytes
		"garbage": []byte(strings.Repeat("\xff", 100)),
		"huge":    []byte(strings.Repeat("x", maxAnswer+1)),
	} {
		resource := "vendor.test/" + name
		r.serveRaw(resource, report)
		eventually(t, name+" is disconnected", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.plugins[resource] == nil
		})
		r.counts(resource, 0, 0)
	}
	hangs, release := r.plugin(card), make(chan struct{})
	begun := make(chan struct{})
	hangs.allocate = func([]string) (*pluginapi.AllocateResponse, error) {
		close(begun)
		<-release
		return nil, errors.New("released")
	}
	hangs.start("a", strings.Repeat("x", maxID+1), strings.Repeat("y", maxID))
	r.counts(card, 2, 2)
	ended := make(chan error, 1)
	go func() {
		_, err := r.allocate(podOf("waits", map[string]int64{card: 1}), "app")
		ended <- err
	}()
	<-begun
	r.plugin(port).start("p")
	r.counts(port, 1, 1)
	r.given(podOf("web", map[string]int64{port: 1}), "app", port, "p")
	if len(ended) > 0 {
		t.Errorf("the plugin has answered: %v", <-ended)
	}
	close(release)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "released") {
		t.Errorf("%v, want the plugin's error", err)
	}
}

// The number of items that a plugin assigns to a container is limited.
func TestAnswersOfPluginsAreBounded(t *testing.T) {
	r := newRig(t)
	p := r.plugin(card)
	items := maxItems + 1
	p.allocate = func([]string) (*pluginapi.AllocateResponse, error) {
		given := &pluginapi.ContainerAllocateResponse{}
		for i := range items {
			given.CdiDevices = append(given.CdiDevices, &pluginapi.CDIDevice{Name: "vendor.test/card=" + strconv.Itoa(i)})
		}
		return answering(given), nil
	}
	p.start("a")
	r.counts(card, 1, 1)
	r.refused(podOf("web", map[string]int64{card: 1}), "app", "its answer has 4097 devices, mounts, envs, annotations and cdi_devices")
	items = maxAnswer / 16
	r.refused(podOf("web", map[string]int64{card: 1}), "app", "received message larger than max")
}

// The time of a choice is proportional to the number of devices, whatever the plugin prefers: the manager is locked
// meanwhile.
func TestManyPreferredDevices(t *testing.T) {
	c := ledger.Choice{Need: 1 << 19} // a list search for each of them would take minutes
	var preferred []string
	for i := range c.Need {
		c.Free = append(c.Free, "a"+strconv.Itoa(i))
		preferred = append(preferred, "b"+strconv.Itoa(i))
	}
	picked := make(chan int, 1)
	go func() { picked <- len(c.Pick(preferred)) }()
	select {
	case got := <-picked:
		if got != c.Need {
			t.Errorf("%d devices, want %d", got, c.Need)
		}
	case <-time.After(patience):
		t.Error("not in time: the choice is made")
	}
}
