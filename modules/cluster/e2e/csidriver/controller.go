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

// topologyKey is the node's label to which volumes are bound.
const topologyKey = "topology.hostpath.csi/node"

func (d *driver) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	types := []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csipb.ControllerServiceCapability_RPC_CLONE_VOLUME, csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if d.attach {
		types = append(types, csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	resp := &csipb.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		resp.Capabilities = append(resp.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: t}}})
	}
	return resp, nil
}

func (d *driver) CreateVolume(_ context.Context, req *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	block := slices.ContainsFunc(req.GetVolumeCapabilities(), func(c *csipb.VolumeCapability) bool { return c.GetBlock() != nil })
	size := max(req.GetCapacityRange().GetRequiredBytes(), 1<<20)
	id := "vol-" + req.GetName()
	v := d.volumes[id]
	switch {
	case v != nil && (v.Size < size || v.Block != block):
		return nil, status.Errorf(codes.AlreadyExists, "volume %q exists with another size or mode", v.ID)
	case v == nil:
		v = &volume{ID: id, Size: size, Block: block, Published: map[string]string{}}
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

// create makes the directory or file of a volume, with the source's content if it is not empty.
func (d *driver) create(v *volume, source string) error {
	if strings.Contains(v.ID, "/") {
		return status.Errorf(codes.InvalidArgument, "the name of a volume contains a slash: %q", v.ID)
	}
	from := d.volumes[source]
	switch {
	case source != "" && from == nil:
		return notFound(source)
	case from != nil && from.Block != v.Block:
		return status.Errorf(codes.InvalidArgument, "volume %q has another mode than its source", v.ID)
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
			return os.Mkdir(d.path(v), 0o777) // the tests' containers have several users
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
	v := d.volumes[req.GetVolumeId()]
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
	v := d.volumes[req.GetVolumeId()]
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
	v := d.volumes[req.GetVolumeId()]
	switch {
	case v == nil:
	case v.inUse():
		return nil, outOfOrder("volume %q is detached while the node uses it", v.ID)
	default:
		v.Attached = false
	}
	return &csipb.ControllerUnpublishVolumeResponse{}, nil
}

func (d *driver) ControllerExpandVolume(_ context.Context, req *csipb.ControllerExpandVolumeRequest) (*csipb.ControllerExpandVolumeResponse, error) {
	v := d.volumes[req.GetVolumeId()]
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
