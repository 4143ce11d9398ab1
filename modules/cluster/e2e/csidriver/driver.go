//go:build linux

package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// settings are the driver's flags.
type settings struct {
	name, node, directory string
	limit                 int64
	attach, expandOnNode  bool
	topology              bool
}

// A driver implements all services of CSI. Its mutex is held during each call: a call only takes milliseconds.
type driver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer
	settings

	mu      sync.Mutex
	volumes map[string]*volume // by ID
}

// A volume is a directory, or a file with a block device's content. It is stored as JSON.
type volume struct {
	ID               string
	Size             int64
	Block, Ephemeral bool
	Attached         bool
	Staged           string            // the staging path
	Published        map[string]string // the target paths, and the loop device of each target of a block volume
}

// runDriver serves the driver, or forwards its socket.
func runDriver(ctx context.Context, args []string) error {
	var s settings
	flags := newFlags("driver")
	endpoint := flags.String("endpoint", "", "the driver's socket")
	proxy := flags.String("proxy-endpoint", "", "the address at which the process of the tests connects")
	flags.StringVar(&s.name, "drivername", "", "the driver's name")
	flags.StringVar(&s.node, "nodeid", "", "the node's name")
	flags.StringVar(&s.directory, "statedir", "/csi-data-dir", "the directory of the volumes")
	flags.Int64Var(&s.limit, "maxvolumespernode", 0, "the largest number of volumes of the node; 0 means no limit")
	flags.Int64Var(&s.limit, "attach-limit", 0, "the same")
	flags.BoolVar(&s.attach, "enable-attach", false, "volumes are attached")
	flags.BoolVar(&s.expandOnNode, "node-expand-required", true, "the node expands volumes")
	flags.BoolVar(&s.topology, "enable-topology", true, "volumes have a topology")
	flags.Bool("enable-controller-modify-volume", false, "ignored")
	flags.String("accepted-mutable-parameter-names", "", "ignored")
	flags.Bool("check-volume-lifecycle", true, "ignored: the order of the calls is always checked")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := listen(strings.TrimPrefix(*endpoint, "unix://"))
	if err != nil {
		return err
	}
	if *proxy != "" {
		return forward(ctx, listener, strings.TrimPrefix(*proxy, "tcp://"))
	}
	d := &driver{settings: s}
	d.directory = filepath.Join(s.directory, s.name) // drivers of several tests share the host's directory
	if err := d.load(); err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(d.call))
	csipb.RegisterIdentityServer(server, d)
	csipb.RegisterControllerServer(server, d)
	csipb.RegisterNodeServer(server, d)
	context.AfterFunc(ctx, server.Stop)
	return server.Serve(listener)
}

// call serializes the calls, stores the volumes after each, and logs each call in the form that the tests read.
func (d *driver) call(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	resp, err := handler(ctx, req)
	if err == nil {
		err = d.save()
	}
	entry := map[string]any{"Method": info.FullMethod, "Request": req, "Response": resp, "Error": ""}
	if err != nil {
		entry["Error"], entry["FullError"] = err.Error(), status.Convert(err).Proto()
	}
	line, failed := json.Marshal(entry)
	if failed != nil {
		return nil, failed
	}
	log.Printf("gRPCCall: %s", line)
	return resp, err
}

func (d *driver) file() string          { return filepath.Join(d.directory, "volumes.json") }
func (d *driver) path(v *volume) string { return filepath.Join(d.directory, v.ID) }
func (v *volume) inUse() bool           { return v.Staged != "" || len(v.Published) > 0 }
func notFound(id string) error          { return status.Errorf(codes.NotFound, "there is no volume %q", id) }
func outOfOrder(text, id string) error  { return status.Errorf(codes.FailedPrecondition, text, id) }
func missing(field string) error        { return status.Errorf(codes.InvalidArgument, "%s is missing", field) }
func internal(err error) error          { return status.Error(codes.Internal, err.Error()) }

// load reads an earlier process's volumes.
func (d *driver) load() error {
	d.volumes = map[string]*volume{}
	if err := os.MkdirAll(d.directory, 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(d.file())
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &d.volumes)
}

// save writes the volumes, for the next process.
func (d *driver) save() error {
	text, err := json.Marshal(d.volumes)
	if err != nil {
		return internal(err)
	}
	if err := os.WriteFile(d.file()+".new", text, 0o600); err != nil {
		return internal(err)
	}
	return os.Rename(d.file()+".new", d.file())
}

func (d *driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	resp := &csipb.GetPluginCapabilitiesResponse{Capabilities: []*csipb.PluginCapability{
		{Type: &csipb.PluginCapability_VolumeExpansion_{VolumeExpansion: &csipb.PluginCapability_VolumeExpansion{Type: csipb.PluginCapability_VolumeExpansion_ONLINE}}},
	}}
	services := []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.topology {
		services = append(services, csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	for _, s := range services {
		resp.Capabilities = append(resp.Capabilities, &csipb.PluginCapability{Type: &csipb.PluginCapability_Service_{Service: &csipb.PluginCapability_Service{Type: s}}})
	}
	return resp, nil
}
