package csi

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// Objects gets the API objects that volumes refer to. Each function may be called concurrently, must return when ctx
// ends, and returns an object that must not be modified. A nil function means that there are no such objects.
type Objects struct {
	// Claim returns a PersistentVolumeClaim, and Volume a PersistentVolume.
	Claim  func(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	Volume func(ctx context.Context, name string) (*v1.PersistentVolume, error)
	// Driver returns a CSIDriver, nil if there is none: then its defaults hold.
	Driver func(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	// Attachment returns the VolumeAttachment of that name, nil if there is none. Default: volumes need no attachment.
	Attachment func(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
	// Secrets gets the secrets that drivers need.
	Secrets env.Secrets
	// Tokens returns the volume attribute csi.storage.k8s.io/serviceAccount.tokens for a pod. Default: a driver that
	// asks for tokens fails.
	Tokens func(ctx context.Context, pod Pod, requests []storagev1.TokenRequest) (string, error)
	// node is the name of the node, which names of attachments contain.
	node string
}

// A Pod is what drivers need to know of a pod.
type Pod struct {
	UID, Namespace, Name, ServiceAccount string
	// FSGroup is the group that owns the files of the volume, and Always has their owner changed also if the root
	// directory of the volume has it.
	FSGroup *int64
	Always  bool
}

// Static returns Objects for an agent without an API server: PersistentVolumes, and claims that name one each in
// spec.volumeName. They count as bound to each other. The objects must not be changed any more.
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

// bindTo returns a volume with a reference to the claim that names it.
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
