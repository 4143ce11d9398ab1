package csi

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// Objects gets the API volume objects. Each function may be called concurrently and must return when ctx ends. The
// caller does not modify the returned objects. A nil function means that there are no objects of that kind.
type Objects struct {
	// Claim returns a PersistentVolumeClaim, and Volume a PersistentVolume.
	Claim  func(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	Volume func(ctx context.Context, name string) (*v1.PersistentVolume, error)
	// Driver returns a CSIDriver. Nil means that the driver has none, and the API's defaults apply.
	Driver func(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	// Attachment returns the VolumeAttachment with that name, nil if it does not exist. Default: no volume needs
	// an attachment.
	Attachment func(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
	// Secrets gets the secrets that drivers need.
	Secrets env.Secrets
	// Tokens returns the volume attribute csi.storage.k8s.io/serviceAccount.tokens for a pod. Default: a driver that
	// asks for tokens fails.
	Tokens func(ctx context.Context, pod Pod, requests []storagev1.TokenRequest) (string, error)
	// node is the node's name, which is part of the names of attachments.
	node string
}

// A Pod has the fields in a pod that drivers need.
type Pod struct {
	UID, Namespace, Name, ServiceAccount string
	// FSGroup is the group that gets the volume's files. With Always the files are changed even if the volume's
	// root directory has the group already.
	FSGroup *int64
	Always  bool
}

// podOf returns the fields in a pod that drivers need.
func podOf(pod *v1.Pod) Pod {
	p := Pod{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, ServiceAccount: pod.Spec.ServiceAccountName, Always: true}
	if sc := pod.Spec.SecurityContext; sc != nil {
		p.FSGroup = sc.FSGroup
		p.Always = sc.FSGroupChangePolicy == nil || *sc.FSGroupChangePolicy != v1.FSGroupChangeOnRootMismatch
	}
	return p
}

// Static returns Objects for an agent without an API server. Each claim names its PersistentVolume in spec.volumeName,
// and both count as bound to each other. The caller must not modify the objects afterwards.
func Static(volumes []*v1.PersistentVolume, claims []*v1.PersistentVolumeClaim) Objects {
	return Objects{
		Claim: func(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
			for _, c := range claims {
				if c.Namespace == namespace && c.Name == name {
					c = c.DeepCopy()
					c.Status.Phase = v1.ClaimBound
					return c, nil
				}
			}
			return nil, fmt.Errorf("persistentvolumeclaim %q not found", name)
		},
		Volume: func(_ context.Context, name string) (*v1.PersistentVolume, error) {
			for _, pv := range volumes {
				if pv.Name == name {
					return bindTo(pv, claims), nil
				}
			}
			return nil, fmt.Errorf("persistentvolume %q not found", name)
		},
	}
}

// bindTo returns a copy of a volume that refers to the claim that names it.
func bindTo(pv *v1.PersistentVolume, claims []*v1.PersistentVolumeClaim) *v1.PersistentVolume {
	if pv.Spec.ClaimRef != nil {
		return pv
	}
	for _, c := range claims {
		if c.Spec.VolumeName == pv.Name {
			pv = pv.DeepCopy()
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
			break
		}
	}
	return pv
}
