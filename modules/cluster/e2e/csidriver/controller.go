//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// topologyKey is the label of the node to which volumes are bound, capacity the size of all volumes together.
const (
	topologyKey = "topology.hostpath.csi/node"
	capacity    = 1 << 40
)

func (d *driver) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	types := []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csipb.ControllerServiceCapability_RPC_CLONE_VOLUME, csipb.ControllerServiceCapability_RPC_GET_CAPACITY,
		csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if d.attach {
		types = append(types, csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	if d.modifyVolume {
		types = append(types, csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	}
	resp := &csipb.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		resp.Capabilities = append(resp.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: t}}})
	}
	return resp, nil
}

func (d *driver) CreateVolume(_ context.Context, req *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	if err := d.modifiable(req.GetMutableParameters()); err != nil {
		return nil, err
	}
	block := slices.ContainsFunc(req.GetVolumeCapabilities(), func(c *csipb.VolumeCapability) bool { return c.GetBlock() != nil })
	size := max(req.GetCapacityRange().GetRequiredBytes(), 1<<20)
	v := d.named(req.GetName())
	switch {
	case v != nil && (v.Size < size || v.Block != block):
		return nil, status.Errorf(codes.AlreadyExists, "volume %q exists with another size or mode", v.Name)
	case v == nil:
		v = &volume{ID: "vol-" + req.GetName(), Name: req.GetName(), Size: size, Block: block, Published: map[string]string{}}
		if err := d.create(v, req.GetVolumeContentSource().GetVolume().GetVolumeId()); err != nil {
			return nil, err
		}
	}
	made := &csipb.Volume{VolumeId: v.ID, CapacityBytes: v.Size, VolumeContext: req.GetParameters(), ContentSource: req.GetVolumeContentSource()}
	if d.topology {
		made.AccessibleTopology = []*csipb.Topology{d.segment()}
	}
	return &csipb.CreateVolumeResponse{Volume: made}, nil
}

func (d *driver) segment() *csipb.Topology {
	return &csipb.Topology{Segments: map[string]string{topologyKey: d.node}}
}

// named returns the volume with a name, or nil.
func (d *driver) named(name string) *volume {
	for _, v := range d.volumes {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// create makes the directory or file of a volume, with the content of the source if it is not empty.
func (d *driver) create(v *volume, source string) error {
	if strings.Contains(v.ID, "/") {
		return status.Errorf(codes.InvalidArgument, "the name of a volume contains a slash: %q", v.ID)
	}
	from := d.get(source)
	switch {
	case source != "" && from == nil:
		return notFound(source)
	case from != nil && from.Block != v.Block:
		return status.Errorf(codes.InvalidArgument, "volume %q has another mode than its source", v.Name)
	}
	if err := d.fill(v, from); err != nil {
		return internal(fmt.Errorf("create volume %s: %w", v.ID, err))
	}
	d.volumes[v.ID] = v
	return nil
}

func (d *driver) fill(v, from *volume) error {
	if !v.Block {
		if from == nil {
			return os.Mkdir(d.path(v), 0o777) // the containers of the tests have several users
		}
		return exec.Command("cp", "-a", d.path(from), d.path(v)).Run()
	}
	file, err := os.OpenFile(d.path(v), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if from != nil {
		content, err := os.Open(d.path(from))
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }()
		if _, err := io.Copy(file, content); err != nil {
			return err
		}
	}
	return file.Truncate(v.Size)
}

func (d *driver) DeleteVolume(_ context.Context, req *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	v := d.get(req.GetVolumeId())
	switch {
	case v == nil:
		return &csipb.DeleteVolumeResponse{}, nil
	case v.inUse() || v.Attached:
		return nil, outOfOrder("volume %q is deleted while it is in use", v.ID)
	}
	return &csipb.DeleteVolumeResponse{}, d.remove(v)
}

func (d *driver) remove(v *volume) error {
	if err := os.RemoveAll(d.path(v)); err != nil {
		return internal(err)
	}
	delete(d.volumes, v.ID)
	return nil
}

func (d *driver) ControllerPublishVolume(_ context.Context, req *csipb.ControllerPublishVolumeRequest) (*csipb.ControllerPublishVolumeResponse, error) {
	v := d.get(req.GetVolumeId())
	if v == nil {
		return nil, notFound(req.GetVolumeId())
	}
	attached := 0
	for _, other := range d.volumes {
		if other.Attached {
			attached++
		}
	}
	if !v.Attached && d.limit > 0 && int64(attached) >= d.limit {
		return nil, status.Errorf(codes.ResourceExhausted, "%d volumes are attached", attached)
	}
	v.Attached = true
	return &csipb.ControllerPublishVolumeResponse{}, nil
}

func (d *driver) ControllerUnpublishVolume(_ context.Context, req *csipb.ControllerUnpublishVolumeRequest) (*csipb.ControllerUnpublishVolumeResponse, error) {
	v := d.get(req.GetVolumeId())
	switch {
	case v == nil:
	case v.inUse():
		return nil, outOfOrder("volume %q is detached while the node uses it", v.ID)
	default:
		v.Attached = false
	}
	return &csipb.ControllerUnpublishVolumeResponse{}, nil
}

func (d *driver) ValidateVolumeCapabilities(_ context.Context, req *csipb.ValidateVolumeCapabilitiesRequest) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	if d.get(req.GetVolumeId()) == nil {
		return nil, notFound(req.GetVolumeId())
	}
	return &csipb.ValidateVolumeCapabilitiesResponse{Confirmed: &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: req.GetVolumeCapabilities()}}, nil
}

func (d *driver) GetCapacity(context.Context, *csipb.GetCapacityRequest) (*csipb.GetCapacityResponse, error) {
	left := int64(capacity)
	for _, v := range d.volumes {
		left -= v.Size
	}
	return &csipb.GetCapacityResponse{AvailableCapacity: left}, nil
}

func (d *driver) ControllerExpandVolume(_ context.Context, req *csipb.ControllerExpandVolumeRequest) (*csipb.ControllerExpandVolumeResponse, error) {
	v := d.get(req.GetVolumeId())
	if v == nil {
		return nil, notFound(req.GetVolumeId())
	}
	if v.Size = max(v.Size, req.GetCapacityRange().GetRequiredBytes()); v.Block {
		if err := os.Truncate(d.path(v), v.Size); err != nil {
			return nil, internal(err)
		}
	}
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: d.expandOnNode}, nil
}

func (d *driver) ControllerModifyVolume(_ context.Context, req *csipb.ControllerModifyVolumeRequest) (*csipb.ControllerModifyVolumeResponse, error) {
	if d.get(req.GetVolumeId()) == nil {
		return nil, notFound(req.GetVolumeId())
	}
	return &csipb.ControllerModifyVolumeResponse{}, d.modifiable(req.GetMutableParameters())
}

// modifiable refuses parameters that cannot be modified.
func (d *driver) modifiable(parameters map[string]string) error {
	for name := range parameters {
		if !slices.Contains(strings.Split(d.mutable, ","), name) {
			return status.Errorf(codes.InvalidArgument, "parameter %q cannot be modified", name)
		}
	}
	return nil
}
