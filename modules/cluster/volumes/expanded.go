package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/podsync/podsync/modules/csi"
)

// maxExpansions limits the queued results. Further ones are dropped: the node reports a success again
// within a minute while the claim does not have the size, and a failure with the next attempt.
const maxExpansions = 256

// An expansion is the result of the expansion of a PersistentVolume by the node.
type expansion struct {
	volume string
	bytes  int64
	err    error
}

// Expanding implements csi.Expansions: it records in the status of the claim that the node expands the volume
// (NodeResizeInProgress, KEP-1790), so that the resizer does not change the size meanwhile. A claim in whose status the
// resizer has recorded no allocated size stays as it is. Expanding returns an error while the resizer works on the volume,
// and while the status is NodeResizeInfeasible, which the resizer replaces.
func (v *Volumes) Expanding(ctx context.Context, volume string, _ int64) error {
	_, claim, err := v.claimOf(ctx, volume)
	if apierrors.IsNotFound(err) || err == nil && claim == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if _, allocated := claim.Status.AllocatedResources[v1.ResourceStorage]; !allocated {
		return nil
	}
	switch status := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]; status {
	case v1.PersistentVolumeClaimNodeResizeInProgress:
		return nil
	case "", v1.PersistentVolumeClaimNodeResizePending:
	default:
		return fmt.Errorf("the volume is not expanded: claim %s/%s has the status %s until the resizer replaces it", claim.Namespace, claim.Name, status)
	}
	return v.patchClaim(ctx, claim, map[string]any{"allocatedResourceStatuses": map[v1.ResourceName]any{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizeInProgress}})
}

// Expanded implements csi.Expansions: it queues the result for the claim's status, and does not block.
func (v *Volumes) Expanded(volume string, bytes int64, err error) {
	select {
	case v.expanded <- expansion{volume, bytes, err}:
	default:
		v.config.Log.Info("The result of an expansion is not written to the claim: too many others wait", "volume", volume)
	}
}

// writeExpansions writes the results of expansions to the claims until ctx ends.
func (v *Volumes) writeExpansions(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-v.expanded:
			err := v.writeExpansion(ctx, e)
			if err == nil || ctx.Err() != nil {
				continue
			}
			v.config.Log.Error(err, "The result of an expansion is not written to the claim", "volume", e.volume)
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				continue // the claim is deleted, or no pod of this node uses it: a retry would fail again
			}
			select {
			case <-ctx.Done():
			case <-time.After(writePause):
			}
			v.Expanded(e.volume, e.bytes, e.err) // retry after the other claims, which may succeed
		}
	}
}

// writeExpansion writes the new capacity of a claim and removes its resize conditions, or writes the condition
// NodeResizeError if the expansion has failed. The failure is infeasible if the driver says so, or if another size is
// requested meanwhile: the resizer acts only then. A result is outdated if the volume has another size.
func (v *Volumes) writeExpansion(ctx context.Context, e expansion) error {
	pv, claim, err := v.claimOf(ctx, e.volume)
	if err != nil || claim == nil {
		return err
	}
	if size := pv.Spec.Capacity[v1.ResourceStorage]; size.Value() != e.bytes {
		return nil
	}
	if e.err == nil {
		return v.patchClaim(ctx, claim, map[string]any{
			"capacity":                  v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(e.bytes, resource.BinarySI)},
			"conditions":                without(claim.Status.Conditions, v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending, v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError),
			"allocatedResourceStatuses": map[v1.ResourceName]any{v1.ResourceStorage: nil},
		})
	}
	failed := v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now(), Message: "failed to expand the volume on the node: " + e.err.Error(),
	}
	for _, c := range claim.Status.Conditions {
		if c.Type == failed.Type && c.Status == failed.Status {
			failed.LastTransitionTime = c.LastTransitionTime
		}
	}
	status := map[string]any{"conditions": append(without(claim.Status.Conditions, failed.Type), failed)}
	requested := claim.Spec.Resources.Requests[v1.ResourceStorage]
	begun := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInProgress
	if begun && (errors.Is(e.err, csi.ErrInfeasible) || requested.Value() != e.bytes) {
		status["allocatedResourceStatuses"] = map[v1.ResourceName]any{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizeInfeasible}
	}
	return v.patchClaim(ctx, claim, status)
}

// without returns the conditions of other types. It is never nil, because a patch with null would remove none.
func without(conditions []v1.PersistentVolumeClaimCondition, kinds ...v1.PersistentVolumeClaimConditionType) []v1.PersistentVolumeClaimCondition {
	others := []v1.PersistentVolumeClaimCondition{}
	for _, c := range conditions {
		if !slices.Contains(kinds, c.Type) {
			others = append(others, c)
		}
	}
	return others
}

// claimOf returns a PersistentVolume and the claim to which it is bound, nil if it is bound to none.
func (v *Volumes) claimOf(ctx context.Context, volume string) (*v1.PersistentVolume, *v1.PersistentVolumeClaim, error) {
	pv, err := v.config.Kube.CoreV1().PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
	if err != nil || pv.Spec.ClaimRef == nil {
		return nil, nil, err
	}
	claim, err := v.config.Kube.CoreV1().PersistentVolumeClaims(pv.Spec.ClaimRef.Namespace).Get(ctx, pv.Spec.ClaimRef.Name, metav1.GetOptions{})
	if err != nil || claim.UID != pv.Spec.ClaimRef.UID {
		return nil, nil, err
	}
	return pv, claim, nil
}

// patchClaim changes fields in the status of a claim that nothing has changed since it was read.
func (v *Volumes) patchClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": claim.ResourceVersion}, "status": status})
	if err != nil {
		return err
	}
	_, err = v.config.Kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
