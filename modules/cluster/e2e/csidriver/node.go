//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

func (d *driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	resp := &csipb.NodeGetInfoResponse{NodeId: d.node, MaxVolumesPerNode: d.limit}
	if d.topology {
		resp.AccessibleTopology = d.segment()
	}
	return resp, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	resp := &csipb.NodeGetCapabilitiesResponse{}
	for _, t := range []csipb.NodeServiceCapability_RPC_Type{
		csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS, csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csipb.NodeServiceCapability{
			Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: t}}})
	}
	return resp, nil
}

func (d *driver) NodeStageVolume(_ context.Context, req *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	v := d.volumes[req.GetVolumeId()]
	switch {
	case v == nil:
		return nil, notFound(req.GetVolumeId())
	case req.GetStagingTargetPath() == "":
		return nil, missing("staging_target_path")
	case d.attach && !v.Attached:
		return nil, outOfOrder("volume %q is staged before it is attached", v.ID)
	case v.Staged != "" && v.Staged != req.GetStagingTargetPath():
		return nil, outOfOrder("volume %q is staged at another path", v.ID)
	}
	if info, err := os.Stat(req.GetStagingTargetPath()); err != nil || !info.IsDir() {
		return nil, outOfOrder("the staging directory of volume %q does not exist", v.ID)
	}
	v.Staged = req.GetStagingTargetPath()
	return &csipb.NodeStageVolumeResponse{}, nil
}

func (d *driver) NodeUnstageVolume(_ context.Context, req *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	v := d.volumes[req.GetVolumeId()]
	switch {
	case v == nil:
	case len(v.Published) > 0:
		return nil, outOfOrder("volume %q is unstaged while it is published", v.ID)
	default:
		v.Staged = ""
	}
	return &csipb.NodeUnstageVolumeResponse{}, nil
}

func (d *driver) NodePublishVolume(_ context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	target := req.GetTargetPath()
	if target == "" {
		return nil, missing("target_path")
	}
	v := d.volumes[req.GetVolumeId()]
	if v == nil && req.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] == "true" {
		v = &volume{ID: req.GetVolumeId(), Size: 1 << 20, Ephemeral: true, Published: map[string]string{}}
		if err := d.create(v, ""); err != nil {
			return nil, err
		}
	}
	switch {
	case v == nil:
		return nil, notFound(req.GetVolumeId())
	case !v.Ephemeral && v.Staged != req.GetStagingTargetPath():
		return nil, outOfOrder("volume %q is published before it is staged", v.ID)
	case (req.GetVolumeCapability().GetBlock() != nil) != v.Block:
		return nil, outOfOrder("volume %q is published in another mode", v.ID)
	}
	if _, published := v.Published[target]; published {
		return &csipb.NodePublishVolumeResponse{}, nil
	}
	device, err := d.publish(v, target, req.GetReadonly())
	if err != nil {
		return nil, internal(fmt.Errorf("publish volume %s at %s: %w", v.ID, target, err))
	}
	v.Published[target] = device
	return &csipb.NodePublishVolumeResponse{}, nil
}

// publish mounts a volume at a path, and returns the loop device of a block volume.
func (d *driver) publish(v *volume, target string, readOnly bool) (device string, err error) {
	source := d.path(v)
	if v.Block {
		if device, err = attachLoop(source, readOnly); err != nil {
			return "", err
		}
		source = device
		file, err := os.OpenFile(target, os.O_CREATE, 0o600)
		if err != nil {
			return "", errors.Join(err, detachLoop(device))
		}
		_ = file.Close()
	} else if err := os.MkdirAll(target, 0o750); err != nil {
		return "", err
	}
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return "", errors.Join(err, detachLoop(device))
	}
	if readOnly && !v.Block {
		err = syscall.Mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	return device, err
}

func (d *driver) NodeUnpublishVolume(_ context.Context, req *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	v, target := d.volumes[req.GetVolumeId()], req.GetTargetPath()
	if v == nil {
		return &csipb.NodeUnpublishVolumeResponse{}, nil
	}
	device, published := v.Published[target]
	if !published {
		return &csipb.NodeUnpublishVolumeResponse{}, nil
	}
	// EINVAL: nothing is mounted there. The mount may be in an earlier container's mount namespace.
	if err := syscall.Unmount(target, 0); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, os.ErrNotExist) {
		return nil, internal(fmt.Errorf("unmount %s: %w", target, err))
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, internal(err)
	}
	if err := detachLoop(device); err != nil {
		return nil, internal(err)
	}
	delete(v.Published, target)
	if v.Ephemeral && len(v.Published) == 0 {
		return &csipb.NodeUnpublishVolumeResponse{}, d.remove(v)
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

func (d *driver) NodeExpandVolume(_ context.Context, req *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	v := d.volumes[req.GetVolumeId()]
	switch {
	case v == nil:
		return nil, notFound(req.GetVolumeId())
	case !v.inUse():
		return nil, outOfOrder("volume %q is expanded before it is staged", v.ID)
	}
	for _, device := range v.Published {
		if err := resizeLoop(device); err != nil {
			return nil, internal(err)
		}
	}
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}

func (d *driver) NodeGetVolumeStats(_ context.Context, req *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	v := d.volumes[req.GetVolumeId()]
	if v == nil {
		return nil, notFound(req.GetVolumeId())
	}
	if _, published := v.Published[req.GetVolumePath()]; !published {
		return nil, notFound(filepath.Join(v.ID, req.GetVolumePath()))
	}
	if v.Block {
		return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{{Unit: csipb.VolumeUsage_BYTES, Total: v.Size}}}, nil
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(req.GetVolumePath(), &s); err != nil {
		return nil, internal(err)
	}
	size := int64(s.Bsize)
	return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{Unit: csipb.VolumeUsage_BYTES, Total: int64(s.Blocks) * size, Available: int64(s.Bavail) * size, Used: int64(s.Blocks-s.Bfree) * size},
		{Unit: csipb.VolumeUsage_INODES, Total: int64(s.Files), Available: int64(s.Ffree), Used: int64(s.Files - s.Ffree)},
	}}, nil
}
