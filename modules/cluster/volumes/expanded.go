package volumes

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// maxExpansions is the maximum number of queued sizes. Further sizes are dropped; the node then expands the volume again
// when a pod starts, which changes nothing.
const maxExpansions = 256

// An expansion is a PersistentVolume that the node has expanded.
type expansion struct {
	volume string
	bytes  int64
}

// Expanded implements csi.Config.Expanded: it queues the size of the claim, and does not block.
func (v *Volumes) Expanded(volume string, bytes int64) {
	select {
	case v.expanded <- expansion{volume, bytes}:
	default:
		v.config.Log.Info("The size of a claim is not written: too many others wait", "volume", volume)
	}
}

// writeSizes writes the sizes of claims until ctx ends.
func (v *Volumes) writeSizes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-v.expanded:
			err := v.writeSize(ctx, e)
			if err == nil || ctx.Err() != nil {
				continue
			}
			v.config.Log.Error(err, "The size of a claim is not written", "volume", e.volume)
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				continue // the claim is deleted, or no pod of this node uses it: a retry would fail again
			}
			select {
			case <-ctx.Done():
			case <-time.After(writePause):
			}
			v.Expanded(e.volume, e.bytes) // retry after the other claims, which may succeed
		}
	}
}

// writeSize writes the capacity of the volume's claim, and removes its resize conditions.
func (v *Volumes) writeSize(ctx context.Context, e expansion) error {
	pv, err := v.config.Kube.CoreV1().PersistentVolumes().Get(ctx, e.volume, metav1.GetOptions{})
	if err != nil || pv.Spec.ClaimRef == nil {
		return err
	}
	claims := v.config.Kube.CoreV1().PersistentVolumeClaims(pv.Spec.ClaimRef.Namespace)
	claim, err := claims.Get(ctx, pv.Spec.ClaimRef.Name, metav1.GetOptions{})
	if err != nil || claim.UID != pv.Spec.ClaimRef.UID {
		return err
	}
	conditions := slices.DeleteFunc(slices.Clone(claim.Status.Conditions), func(c v1.PersistentVolumeClaimCondition) bool {
		return c.Type == v1.PersistentVolumeClaimResizing || c.Type == v1.PersistentVolumeClaimFileSystemResizePending
	})
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": claim.ResourceVersion},
		"status": map[string]any{
			"capacity": v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(e.bytes, resource.BinarySI)}, "conditions": conditions,
			"allocatedResourceStatuses": nil,
		},
	})
	if err != nil {
		return err
	}
	_, err = claims.Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
