//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// attach attaches and detaches the volumes of the driver's VolumeAttachments.
func attach(ctx context.Context, s *sidecar) error {
	var all storagev1.VolumeAttachmentList
	if err := s.kube.get(ctx, attachmentsPath, &all); err != nil {
		return err
	}
	var errs []error
	for i := range all.Items {
		a := &all.Items[i]
		switch {
		case a.Spec.Attacher != s.name || a.Spec.Source.PersistentVolumeName == nil:
		case a.DeletionTimestamp != nil:
			errs = append(errs, s.detach(ctx, a))
		case !a.Status.Attached:
			errs = append(errs, s.attach(ctx, a))
		}
	}
	return errors.Join(errs...)
}

// attach attaches a volume. The finalizer keeps the VolumeAttachment until the volume is detached.
func (s *sidecar) attach(ctx context.Context, a *storagev1.VolumeAttachment) error {
	pv, node, err := s.attached(ctx, a)
	if err != nil {
		return err
	}
	if !slices.Contains(a.Finalizers, s.finalizer()) {
		if err := s.kube.patch(ctx, attachmentsPath+"/"+a.Name, patch{"metadata": patch{"finalizers": append(slices.Clone(a.Finalizers), s.finalizer())}}); err != nil {
			return err
		}
	}
	resp, err := s.driver.ControllerPublishVolume(ctx, &csipb.ControllerPublishVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, NodeId: node, VolumeCapability: capability(pv.Spec.VolumeMode, pv.Spec.CSI.FSType), VolumeContext: pv.Spec.CSI.VolumeAttributes,
	})
	if err != nil {
		failed := patch{"attachError": patch{"message": err.Error(), "time": time.Now().UTC().Format(time.RFC3339)}}
		return errors.Join(fmt.Errorf("ControllerPublishVolume of %s: %w", pv.Name, err), s.attachStatus(ctx, a, failed))
	}
	return s.attachStatus(ctx, a, patch{"attached": true, "attachError": nil, "attachmentMetadata": resp.GetPublishContext()})
}

// detach detaches a volume.
func (s *sidecar) detach(ctx context.Context, a *storagev1.VolumeAttachment) error {
	if !slices.Contains(a.Finalizers, s.finalizer()) {
		return nil
	}
	pv, node, err := s.attached(ctx, a)
	if err != nil {
		return err
	}
	if _, err := s.driver.ControllerUnpublishVolume(ctx, &csipb.ControllerUnpublishVolumeRequest{VolumeId: pv.Spec.CSI.VolumeHandle, NodeId: node}); err != nil {
		return fmt.Errorf("ControllerUnpublishVolume of %s: %w", pv.Name, err)
	}
	if err := s.attachStatus(ctx, a, patch{"attached": false}); err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(a.Finalizers), func(f string) bool { return f == s.finalizer() })
	return s.kube.patch(ctx, attachmentsPath+"/"+a.Name, patch{"metadata": patch{"finalizers": others}})
}

func (s *sidecar) finalizer() string { return "external-attacher/" + s.name }

func (s *sidecar) attachStatus(ctx context.Context, a *storagev1.VolumeAttachment, status patch) error {
	return s.kube.patch(ctx, attachmentsPath+"/"+a.Name+"/status", patch{"status": status})
}

// attached returns the PersistentVolume of a VolumeAttachment, and the driver's name of its node.
func (s *sidecar) attached(ctx context.Context, a *storagev1.VolumeAttachment) (*v1.PersistentVolume, string, error) {
	var pv v1.PersistentVolume
	if err := s.kube.get(ctx, volumesPath+"/"+*a.Spec.Source.PersistentVolumeName, &pv); err != nil {
		return nil, "", err
	}
	if pv.Spec.CSI == nil {
		return nil, "", fmt.Errorf("%s is no CSI volume", pv.Name)
	}
	var node storagev1.CSINode
	if err := s.kube.get(ctx, nodesPath+"/"+a.Spec.NodeName, &node); err != nil {
		return nil, "", err
	}
	for _, d := range node.Spec.Drivers {
		if d.Name == s.name {
			return &pv, d.NodeID, nil
		}
	}
	return nil, "", fmt.Errorf("driver %s is not registered on node %s", s.name, a.Spec.NodeName)
}
