//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
)

// infeasible are the codes of an expansion that cannot succeed later.
var infeasible = []codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.NotFound}

// resize expands the driver's volumes whose claims request more than their PersistentVolumes have.
func resize(ctx context.Context, s *sidecar) error {
	var claims v1.PersistentVolumeClaimList
	if err := s.kube.get(ctx, claimsPath, &claims); err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		c := &claims.Items[i]
		want, has := c.Spec.Resources.Requests[v1.ResourceStorage], c.Status.Capacity[v1.ResourceStorage]
		if c.Status.Phase == v1.ClaimBound && want.Cmp(has) > 0 {
			errs = append(errs, s.expand(ctx, c))
		}
	}
	return errors.Join(errs...)
}

// expand expands a claim's volume. If the node must expand the file system, the claim's status says so.
func (s *sidecar) expand(ctx context.Context, c *v1.PersistentVolumeClaim) error {
	var pv v1.PersistentVolume
	if err := s.kube.get(ctx, volumesPath+"/"+c.Spec.VolumeName, &pv); err != nil || pv.Spec.CSI == nil || pv.Spec.CSI.Driver != s.name {
		return err
	}
	want, has := c.Spec.Resources.Requests[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage]
	if want.Cmp(has) <= 0 {
		return nil // the node has not expanded the file system yet
	}
	if err := s.resizeStatus(ctx, c, v1.PersistentVolumeClaimControllerResizeInProgress, v1.PersistentVolumeClaimResizing, want.String()); err != nil {
		return err
	}
	resp, err := s.driver.ControllerExpandVolume(ctx, &csipb.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, CapacityRange: &csipb.CapacityRange{RequiredBytes: want.Value()}, VolumeCapability: capability(pv.Spec.VolumeMode, pv.Spec.CSI.FSType),
	})
	if err != nil {
		err = fmt.Errorf("ControllerExpandVolume of %s: %w", pv.Name, err)
		if slices.Contains(infeasible, status.Code(err)) {
			return errors.Join(err, s.resizeStatus(ctx, c, v1.PersistentVolumeClaimControllerResizeInfeasible, v1.PersistentVolumeClaimResizing, want.String()))
		}
		return err
	}
	if err := s.kube.patch(ctx, volumesPath+"/"+pv.Name, patch{"spec": patch{"capacity": patch{"storage": want.String()}}}); err != nil {
		return err
	}
	if resp.GetNodeExpansionRequired() {
		return s.resizeStatus(ctx, c, v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimFileSystemResizePending, want.String())
	}
	done := patch{"capacity": patch{"storage": want.String()}, "allocatedResourceStatuses": nil, "conditions": nil}
	return s.kube.patch(ctx, claimPath(c.Namespace, c.Name)+"/status", patch{"status": done})
}

// resizeStatus records an expansion's progress in the claim's status.
func (s *sidecar) resizeStatus(ctx context.Context, c *v1.PersistentVolumeClaim, step v1.ClaimResourceStatus, condition v1.PersistentVolumeClaimConditionType, size string) error {
	return s.kube.patch(ctx, claimPath(c.Namespace, c.Name)+"/status", patch{"status": patch{
		"allocatedResources": patch{"storage": size}, "allocatedResourceStatuses": patch{"storage": step},
		"conditions": []patch{{"type": condition, "status": v1.ConditionTrue}},
	}})
}
