package csitest

import (
	"context"
	"os"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// GetPluginInfo returns the driver's name.
func (d *Driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.config.Name, VendorVersion: "1"}, nil
}

// NodeGetInfo returns the node's name.
func (d *Driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	resp := &csipb.NodeGetInfoResponse{NodeId: d.config.NodeID, MaxVolumesPerNode: d.config.MaxVolumes}
	if d.config.Topology != nil {
		resp.AccessibleTopology = &csipb.Topology{Segments: d.config.Topology}
	}
	return resp, nil
}

// NodeGetCapabilities returns what the driver can do.
func (d *Driver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	resp := &csipb.NodeGetCapabilitiesResponse{}
	for kind, has := range map[csipb.NodeServiceCapability_RPC_Type]bool{
		csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:     !d.config.NoStage,
		csipb.NodeServiceCapability_RPC_EXPAND_VOLUME:            !d.config.NoExpand,
		csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS:         !d.config.NoStats,
		csipb.NodeServiceCapability_RPC_VOLUME_CONDITION:         d.config.Conditions,
		csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:       d.config.Groups,
		csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER: d.config.SingleWriter,
	} {
		if has {
			resp.Capabilities = append(resp.Capabilities, &csipb.NodeServiceCapability{Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: kind}}})
		}
	}
	return resp, nil
}

// NodeStageVolume stages a volume.
func (d *Driver) NodeStageVolume(ctx context.Context, req *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	return &csipb.NodeStageVolumeResponse{}, d.do(ctx, "NodeStage", req.GetVolumeId(), req.GetStagingTargetPath(), func() error {
		if at, ok := d.staged[req.VolumeId]; ok && at != req.StagingTargetPath {
			d.violate("NodeStage of %s at %s, which is staged at %s", req.VolumeId, req.StagingTargetPath, at)
		}
		if _, err := os.Stat(req.StagingTargetPath); err != nil {
			d.violate("NodeStage of %s: the caller must make the staging path: %v", req.VolumeId, err)
		}
		if err := d.config.Mounter.Mount(req.VolumeId, req.StagingTargetPath); err != nil {
			return err
		}
		d.staged[req.VolumeId] = req.StagingTargetPath
		return nil
	})
}

// NodeUnstageVolume unstages a volume.
func (d *Driver) NodeUnstageVolume(ctx context.Context, req *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	return &csipb.NodeUnstageVolumeResponse{}, d.do(ctx, "NodeUnstage", req.GetVolumeId(), req.GetStagingTargetPath(), func() error {
		if n := len(d.published[req.VolumeId]); n > 0 {
			d.violate("NodeUnstage of %s, which is published at %d targets", req.VolumeId, n)
		}
		if err := d.config.Mounter.Unmount(req.StagingTargetPath); err != nil {
			return err
		}
		delete(d.staged, req.VolumeId)
		return nil
	})
}

// NodePublishVolume mounts a volume for a pod.
func (d *Driver) NodePublishVolume(ctx context.Context, req *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	return &csipb.NodePublishVolumeResponse{}, d.do(ctx, "NodePublish", req.GetVolumeId(), req.GetTargetPath(), func() error {
		ephemeral := req.VolumeContext["csi.storage.k8s.io/ephemeral"] == "true"
		if at := d.staged[req.VolumeId]; !d.config.NoStage && !ephemeral && (at == "" || at != req.StagingTargetPath) {
			d.violate("NodePublish of %s from %q, which is staged at %q", req.VolumeId, req.StagingTargetPath, at)
			return status.Error(codes.FailedPrecondition, "the volume is not staged")
		}
		if err := d.config.Mounter.Mount(req.VolumeId, req.TargetPath); err != nil {
			return err
		}
		if d.published[req.VolumeId] == nil {
			d.published[req.VolumeId] = map[string]*csipb.NodePublishVolumeRequest{}
		}
		d.published[req.VolumeId][req.TargetPath] = req
		return nil
	})
}

// NodeUnpublishVolume unmounts a volume for a pod.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, req *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	return &csipb.NodeUnpublishVolumeResponse{}, d.do(ctx, "NodeUnpublish", req.GetVolumeId(), req.GetTargetPath(), func() error {
		if d.inUse != nil && d.inUse(req.TargetPath) {
			d.violate("NodeUnpublish of %s at %s, which a container uses", req.VolumeId, req.TargetPath)
		}
		if err := d.config.Mounter.Unmount(req.TargetPath); err != nil {
			return err
		}
		delete(d.published[req.VolumeId], req.TargetPath)
		if len(d.published[req.VolumeId]) == 0 {
			delete(d.published, req.VolumeId)
		}
		return nil
	})
}

// NodeExpandVolume grows a file system.
func (d *Driver) NodeExpandVolume(ctx context.Context, req *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: req.GetCapacityRange().GetRequiredBytes()}, d.do(ctx, "NodeExpand", req.GetVolumeId(), req.GetVolumePath(), func() error {
		if d.published[req.VolumeId][req.VolumePath] == nil {
			d.violate("NodeExpand of %s at %s, where it is not published", req.VolumeId, req.VolumePath)
		}
		return nil
	})
}

// NodeGetVolumeStats returns a volume's usage. Its method is NodeGetStats in Calls and faults.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, req *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	d.mu.Lock()
	f := d.fault("NodeGetStats", req.GetVolumeId())
	d.mu.Unlock()
	gone := pause(ctx, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	switch {
	case gone != nil:
		err = status.FromContextError(gone).Err()
	case f.Code != codes.OK:
		err = status.Error(f.Code, cmpOr(f.Message, f.Code.String()))
	case d.published[req.GetVolumeId()][req.GetVolumePath()] == nil:
		err = status.Error(codes.NotFound, "the volume is not published there")
	}
	d.calls = append(d.calls, Call{"NodeGetStats", req.GetVolumeId(), req.GetVolumePath(), status.Code(err)})
	if err != nil {
		return nil, err
	}
	if answer := d.usage[req.GetVolumeId()]; answer != nil {
		return answer, nil
	}
	return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{Unit: csipb.VolumeUsage_BYTES, Total: 10 << 30, Used: 1 << 30, Available: 9 << 30},
		{Unit: csipb.VolumeUsage_INODES, Total: 1000, Used: 10, Available: 990},
	}, VolumeCondition: &csipb.VolumeCondition{}}, nil
}
