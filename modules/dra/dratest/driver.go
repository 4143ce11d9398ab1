package dratest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	healthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// A Driver is a driver that remembers which claims are prepared. For each claim it answers with one device, dev of the pool node, with
// the CDI device Name/device=UID. Its fields must not be changed after Start. Its methods may be called concurrently.
type Driver struct {
	// Name is the driver's name. Required.
	Name string
	// Older means that the driver supports v1beta1 only.
	Older bool
	// Called, if set, is called twice for each call of the service, before and after it has an effect. If it returns an error, that is
	// the answer.
	Called func(ctx context.Context, method string, after bool) error
	// Prepare, if set, returns the answer about a claim, nil for none, in place of the device above.
	Prepare func(claim *drav1.Claim) *drav1.NodePrepareResourceResponse
	// Answer, if set, changes the answer to NodePrepareResources.
	Answer func(*drav1.NodePrepareResourcesResponse)

	drav1.UnimplementedDRAPluginServer
	healthv1.UnimplementedDRAResourceHealthServer
	registerapi.UnimplementedRegistrationServer

	mu       sync.Mutex
	server   *grpc.Server
	prepared map[string]bool
	calls    []string
	health   *healthv1.NodeWatchResourcesResponse
	// reported is closed when health changes.
	reported chan struct{}
}

// Start serves the driver at a socket in the directory plugins_registry of an agent's root directory.
func (d *Driver) Start(root string) error {
	dir := filepath.Join(root, "plugins_registry")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, d.Name+".sock"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, d)
	if d.Older {
		drav1beta1.RegisterDRAPluginServer(server, drav1beta1.V1ServerWrapper{DRAPluginServer: d})
	} else {
		drav1.RegisterDRAPluginServer(server, d)
	}
	healthv1.RegisterDRAResourceHealthServer(server, d)
	d.mu.Lock()
	d.server = server
	d.mu.Unlock()
	go func() { _ = server.Serve(listener) }()
	return nil
}

// Stop stops the driver. What is prepared stays so.
func (d *Driver) Stop() {
	d.mu.Lock()
	server := d.server
	d.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Prepared returns the UIDs of the prepared claims, sorted.
func (d *Driver) Prepared() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.prepared))
}

// SetPrepared replaces the prepared claims.
func (d *Driver) SetPrepared(uids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.prepared = map[string]bool{}
	for _, uid := range uids {
		d.prepared[uid] = true
	}
}

// Calls returns the calls so far, as "prepare UID" and "unprepare UID", and forgets them.
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// Report reports the health of devices.
func (d *Driver) Report(devices ...*healthv1.DeviceHealth) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health = &healthv1.NodeWatchResourcesResponse{Devices: devices}
	close(d.changed())
	d.reported = nil
}

// changed returns the channel that is closed when the health changes. The caller holds the lock.
func (d *Driver) changed() chan struct{} {
	if d.reported == nil {
		d.reported = make(chan struct{})
	}
	return d.reported
}

// GetInfo implements the registration.
func (d *Driver) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	versions := []string{drav1.DRAPluginService, healthv1.DRAResourceHealthService}
	if d.Older {
		versions[0] = drav1beta1.DRAPluginService
	}
	return &registerapi.PluginInfo{Type: registerapi.DRAPlugin, Name: d.Name, SupportedVersions: versions}, nil
}

// NotifyRegistrationStatus implements the registration.
func (d *Driver) NotifyRegistrationStatus(context.Context, *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	return &registerapi.RegistrationStatusResponse{}, nil
}

// NodePrepareResources prepares claims.
func (d *Driver) NodePrepareResources(ctx context.Context, req *drav1.NodePrepareResourcesRequest) (*drav1.NodePrepareResourcesResponse, error) {
	resp := &drav1.NodePrepareResourcesResponse{Claims: map[string]*drav1.NodePrepareResourceResponse{}}
	err := d.serve(ctx, "NodePrepareResources", func() {
		for _, c := range req.Claims {
			d.calls = append(d.calls, "prepare "+c.Uid)
			answer := &drav1.NodePrepareResourceResponse{Devices: []*drav1.Device{{PoolName: "node", DeviceName: "dev", CdiDeviceIds: []string{d.Name + "/device=" + c.Uid}}}}
			if d.Prepare != nil {
				answer = d.Prepare(c)
			}
			if answer == nil {
				continue
			}
			if answer.Error == "" {
				if d.prepared == nil {
					d.prepared = map[string]bool{}
				}
				d.prepared[c.Uid] = true
			}
			resp.Claims[c.Uid] = answer
		}
		if d.Answer != nil {
			d.Answer(resp)
		}
	})
	return resp, err
}

// NodeUnprepareResources unprepares claims.
func (d *Driver) NodeUnprepareResources(ctx context.Context, req *drav1.NodeUnprepareResourcesRequest) (*drav1.NodeUnprepareResourcesResponse, error) {
	resp := &drav1.NodeUnprepareResourcesResponse{Claims: map[string]*drav1.NodeUnprepareResourceResponse{}}
	err := d.serve(ctx, "NodeUnprepareResources", func() {
		for _, c := range req.Claims {
			d.calls = append(d.calls, "unprepare "+c.Uid)
			delete(d.prepared, c.Uid)
			resp.Claims[c.Uid] = &drav1.NodeUnprepareResourceResponse{}
		}
	})
	return resp, err
}

// serve runs a call between two calls of Called.
func (d *Driver) serve(ctx context.Context, method string, effect func()) error {
	called := d.Called
	if called == nil {
		called = func(context.Context, string, bool) error { return nil }
	}
	if err := called(ctx, method, false); err != nil {
		return err
	}
	d.mu.Lock()
	effect()
	d.mu.Unlock()
	return called(ctx, method, true)
}

// NodeWatchResources streams the health of devices.
func (d *Driver) NodeWatchResources(_ *healthv1.NodeWatchResourcesRequest, stream grpc.ServerStreamingServer[healthv1.NodeWatchResourcesResponse]) error {
	for {
		d.mu.Lock()
		health, changed := d.health, d.changed()
		d.mu.Unlock()
		if health != nil {
			if err := stream.Send(health); err != nil {
				return fmt.Errorf("send health: %w", err)
			}
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return errors.New("the stream ends")
		}
	}
}
