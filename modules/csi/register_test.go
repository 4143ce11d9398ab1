package csi_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A registrant is a plugin at a socket in the registry. answers receives the agent's answers to its registration.
type registrant struct {
	csipb.UnimplementedNodeServer
	registerapi.UnimplementedRegistrationServer
	info    *registerapi.PluginInfo
	node    *csipb.NodeGetInfoResponse
	answers chan *registerapi.RegistrationStatus
}

func (r *registrant) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return r.info, nil
}

func (r *registrant) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	r.answers <- s
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (r *registrant) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return r.node, nil
}

func (r *registrant) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	return &csipb.NodeGetCapabilitiesResponse{}, nil
}

// listen serves a plugin at a socket until the returned function is called.
func (r *registrant) listen(t *testing.T, socket string) (stop func()) {
	t.Helper()
	listener := must.Get(net.Listen("unix", socket))(t)
	server := grpc.NewServer()
	csipb.RegisterNodeServer(server, r)
	registerapi.RegisterRegistrationServer(server, r)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server.Stop
}

// newRegistry runs a Manager. The path of its root directory is short enough for Unix sockets.
func newRegistry(t *testing.T) (*csi.Manager, string) {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "csi"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := must.Get(csi.New(csi.Config{Root: filepath.Join(dir, "root")}))(t)
	must.Do(t, os.MkdirAll(filepath.Join(dir, "root/plugins_registry"), 0o750))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return m, dir
}

func TestADriverRegistersAndLeaves(t *testing.T) {
	m, dir := newRegistry(t)
	r := &registrant{info: &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: "d.example.com", SupportedVersions: []string{"1.0.0"}},
		node: &csipb.NodeGetInfoResponse{NodeId: "id", MaxVolumesPerNode: 3}, answers: make(chan *registerapi.RegistrationStatus, 10)}
	stop := r.listen(t, filepath.Join(dir, "root/plugins_registry/d.sock"))
	if answer := <-r.answers; !answer.PluginRegistered {
		t.Fatalf("%v", answer)
	}
	if got := m.Drivers(); len(got) != 1 || got[0].NodeID != "id" || got[0].MaxVolumes != 3 {
		t.Errorf("%+v", got)
	}
	stop()
	for len(m.Drivers()) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
}

// A hostile socket cannot lead the agent out of its root directory, and only valid CSI drivers are registered.
func TestHostileRegistrations(t *testing.T) {
	good := &csipb.NodeGetInfoResponse{NodeId: "id"}
	for name, r := range map[string]*registrant{
		"endpoint elsewhere": {info: &registerapi.PluginInfo{Endpoint: "ELSEWHERE"}, node: good},
		"endpoint by a link": {info: &registerapi.PluginInfo{Endpoint: "LINK"}, node: good},
		"relative endpoint":  {info: &registerapi.PluginInfo{Endpoint: "../d.sock"}, node: good},
		"endpoint is a file": {info: &registerapi.PluginInfo{Endpoint: "FILE"}, node: good},
		"a path as a name":   {info: &registerapi.PluginInfo{Name: "../../etc"}, node: good},
		"a long name":        {info: &registerapi.PluginInfo{Name: strings.Repeat("a", 64)}, node: good},
		"another version":    {info: &registerapi.PluginInfo{SupportedVersions: []string{"0.3.0"}}, node: good},
		"no node":            {info: &registerapi.PluginInfo{}, node: &csipb.NodeGetInfoResponse{}},
		"negative limit":     {info: &registerapi.PluginInfo{}, node: &csipb.NodeGetInfoResponse{NodeId: "id", MaxVolumesPerNode: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			m, dir := newRegistry(t)
			elsewhere, link, file := filepath.Join(dir, "else.sock"), filepath.Join(dir, "root/link.sock"), filepath.Join(dir, "root/file")
			must.Do(t, os.Symlink(elsewhere, link))
			must.Do(t, os.WriteFile(file, nil, 0o600))
			r.answers = make(chan *registerapi.RegistrationStatus, 10)
			r.info.Type = registerapi.CSIPlugin
			r.info.Endpoint = strings.NewReplacer("ELSEWHERE", elsewhere, "LINK", link, "FILE", file).Replace(r.info.Endpoint)
			if r.info.Name == "" {
				r.info.Name = "d.example.com"
			}
			if r.info.SupportedVersions == nil {
				r.info.SupportedVersions = []string{"1.0.0"}
			}
			r.listen(t, elsewhere)
			r.listen(t, filepath.Join(dir, "root/plugins_registry/d.sock"))
			if answer := <-r.answers; answer.PluginRegistered || answer.Error == "" {
				t.Errorf("%v, want an error", answer)
			}
			if got := m.Drivers(); len(got) > 0 {
				t.Errorf("registered: %+v", got)
			}
		})
	}
}

// Sockets that accept connections and send nothing do not delay the registration of a driver for long.
func TestSilentSocketsDelayNoDriver(t *testing.T) {
	_, dir := newRegistry(t)
	for i := range 4 {
		listener := must.Get(net.Listen("unix", filepath.Join(dir, "root/plugins_registry", fmt.Sprintf("a%d.sock", i))))(t)
		t.Cleanup(func() { listener.Close() })
	}
	r := &registrant{info: &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: "d.example.com", SupportedVersions: []string{"1.0.0"}},
		node: &csipb.NodeGetInfoResponse{NodeId: "id"}, answers: make(chan *registerapi.RegistrationStatus, 10)}
	r.listen(t, filepath.Join(dir, "root/plugins_registry/z.sock"))
	select {
	case answer := <-r.answers:
		if !answer.PluginRegistered {
			t.Errorf("%v", answer)
		}
	case <-time.After(30 * time.Second): // one at a time, the silent sockets would take four times as long
		t.Error("the driver has not registered")
	}
}
