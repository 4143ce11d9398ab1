//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// provisionerOf names a claim's provisioner, nodeOf the node that the scheduler has chosen for it, and
	// provisionedBy the provisioner of a PersistentVolume.
	provisionerOf, nodeOf, provisionedBy = "volume.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node", "pv.kubernetes.io/provisioned-by"
	// ownParameters is the prefix of the parameters of a StorageClass that the driver does not get.
	ownParameters = "csi.storage.k8s.io/"
)

// provision creates PersistentVolumes for the driver's claims, and deletes those whose claims are deleted.
func provision(ctx context.Context, s *sidecar) error {
	var claims v1.PersistentVolumeClaimList
	if err := s.kube.get(ctx, claimsPath, &claims); err != nil {
		return err
	}
	var errs []error
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Annotations[provisionerOf] == s.name && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil {
			errs = append(errs, s.provision(ctx, c))
		}
	}
	var volumes v1.PersistentVolumeList
	if err := s.kube.get(ctx, volumesPath, &volumes); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if pv.Annotations[provisionedBy] == s.name && pv.Status.Phase == v1.VolumeReleased && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
			errs = append(errs, s.reclaim(ctx, pv))
		}
	}
	return errors.Join(errs...)
}

// provision creates the volume of a claim and its PersistentVolume.
func (s *sidecar) provision(ctx context.Context, c *v1.PersistentVolumeClaim) error {
	var class storagev1.StorageClass
	if err := s.kube.get(ctx, classesPath+"/"+*c.Spec.StorageClassName, &class); err != nil {
		return err
	}
	if class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && c.Annotations[nodeOf] == "" {
		return nil
	}
	source, err := s.contentOf(ctx, c)
	if err != nil {
		return err
	}
	fsType := s.fsType
	if wanted := class.Parameters[ownParameters+"fstype"]; wanted != "" {
		fsType = wanted
	}
	own := maps.Clone(class.Parameters)
	maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, ownParameters) })
	size, name := c.Spec.Resources.Requests[v1.ResourceStorage], "pvc-"+string(c.UID)
	resp, err := s.driver.CreateVolume(ctx, &csipb.CreateVolumeRequest{
		Name: name, Parameters: own, CapacityRange: &csipb.CapacityRange{RequiredBytes: size.Value()},
		VolumeCapabilities: []*csipb.VolumeCapability{capability(c.Spec.VolumeMode, fsType)}, VolumeContentSource: source,
	})
	if err != nil {
		return fmt.Errorf("CreateVolume for %s/%s: %w", c.Namespace, c.Name, err)
	}
	return s.kube.create(ctx, volumesPath, s.volumeOf(c, &class, fsType, resp.GetVolume()))
}

// contentOf returns the volume that a claim clones, nil if it clones none.
func (s *sidecar) contentOf(ctx context.Context, c *v1.PersistentVolumeClaim) (*csipb.VolumeContentSource, error) {
	if c.Spec.DataSource == nil || c.Spec.DataSource.Kind != "PersistentVolumeClaim" {
		return nil, nil
	}
	var from v1.PersistentVolumeClaim
	if err := s.kube.get(ctx, claimPath(c.Namespace, c.Spec.DataSource.Name), &from); err != nil {
		return nil, err
	}
	var pv v1.PersistentVolume
	if err := s.kube.get(ctx, volumesPath+"/"+from.Spec.VolumeName, &pv); err != nil {
		return nil, err
	}
	if pv.Spec.CSI == nil {
		return nil, fmt.Errorf("%s/%s clones %s, which is no CSI volume", c.Namespace, c.Name, pv.Name)
	}
	volume := &csipb.VolumeContentSource_VolumeSource{VolumeId: pv.Spec.CSI.VolumeHandle}
	return &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{Volume: volume}}, nil
}

func claimPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/persistentvolumeclaims/" + name
}

// volumeOf returns the PersistentVolume of a claim.
func (s *sidecar) volumeOf(c *v1.PersistentVolumeClaim, class *storagev1.StorageClass, fsType string, made *csipb.Volume) *v1.PersistentVolume {
	if isBlock(c.Spec.VolumeMode) {
		fsType = ""
	}
	source := &v1.CSIPersistentVolumeSource{Driver: s.name, VolumeHandle: made.GetVolumeId(), FSType: fsType, VolumeAttributes: made.GetVolumeContext()}
	if secret := class.Parameters[ownParameters+"node-expand-secret-name"]; secret != "" {
		source.NodeExpandSecretRef = &v1.SecretReference{Name: secret, Namespace: class.Parameters[ownParameters+"node-expand-secret-namespace"]}
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(c.UID), Annotations: map[string]string{provisionedBy: s.name}},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: c.Spec.Resources.Requests[v1.ResourceStorage]}, AccessModes: c.Spec.AccessModes, VolumeMode: c.Spec.VolumeMode,
			MountOptions: class.MountOptions, StorageClassName: class.Name, PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: source},
			ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		},
	}
}

// reclaim deletes a volume and its PersistentVolume.
func (s *sidecar) reclaim(ctx context.Context, pv *v1.PersistentVolume) error {
	if _, err := s.driver.DeleteVolume(ctx, &csipb.DeleteVolumeRequest{VolumeId: pv.Spec.CSI.VolumeHandle}); err != nil {
		return fmt.Errorf("DeleteVolume of %s: %w", pv.Name, err)
	}
	return s.kube.remove(ctx, volumesPath+"/"+pv.Name)
}
