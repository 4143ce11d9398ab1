package status

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/podsync/podsync/modules/cluster/mirrors"
	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// patch writes a status, unless the pod has it already, and returns the updated pod. With
// anyVersion the patch has no resourceVersion as a precondition.
func (m *Manager) patch(ctx context.Context, pod *v1.Pod, status *v1.PodStatus, anyVersion bool) (*v1.Pod, error) {
	body, err := patchOf(pod, status, anyVersion)
	if err != nil || body == nil {
		return pod, err
	}
	return m.config.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
}

// patchOf returns the patch that sets a pod's status, nil if the pod has it already.
func patchOf(pod *v1.Pod, status *v1.PodStatus, anyVersion bool) ([]byte, error) {
	before, err := json.Marshal(v1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(v1.Pod{Status: merge(pod, status)})
	if err != nil {
		return nil, err
	}
	body, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil || string(body) == "{}" {
		return nil, err
	}
	return withIdentity(body, pod, anyVersion)
}

// withIdentity adds the pod's UID and, unless anyVersion is set, its resourceVersion to a patch.
func withIdentity(body []byte, pod *v1.Pod, anyVersion bool) ([]byte, error) {
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	identity := map[string]any{"uid": pod.UID}
	if !anyVersion {
		identity["resourceVersion"] = pod.ResourceVersion
	}
	patch["metadata"] = identity
	return json.Marshal(patch)
}

// merge returns the status to write, with the fields of other writers. A terminal phase is final, regardless of its
// writer, except in a mirror: a mirror outlives its static pod, which runs again if its manifest returns.
func merge(pod *v1.Pod, ours *v1.PodStatus) v1.PodStatus {
	theirs, merged := &pod.Status, *ours.DeepCopy()
	merged.NominatedNodeName = theirs.NominatedNodeName
	merged.ResourceClaimStatuses = theirs.ResourceClaimStatuses
	merged.ExtendedResourceClaimStatus = theirs.ExtendedResourceClaimStatus
	merged.NodeAllocatableResourceClaimStatuses = theirs.NodeAllocatableResourceClaimStatuses
	merged.QOSClass = cmp.Or(theirs.QOSClass, ours.QOSClass)
	merged.Conditions = conditions(theirs.Conditions, ours.Conditions)
	if mirrors.Shown(pod) == "" && runtime.IsTerminal(theirs.Phase) && !runtime.IsTerminal(ours.Phase) {
		merged.Phase, merged.Reason, merged.Message = theirs.Phase, theirs.Reason, theirs.Message
	}
	return merged
}

// conditions merges the node's conditions with the conditions of other writers, which stay as they are. A disruption by the node wins unless the
// other writer's has status True as well. Any other disruption belongs to its writer (kubernetes #113578, #111475).
func conditions(theirs, ours []v1.PodCondition) (all []v1.PodCondition) {
	have := map[v1.PodConditionType]bool{} // other writers may have ten thousand
	for _, c := range ours {
		if apistatus.IsOfNode(c.Type) || isDisruption(c) && prevails(c, theirs) {
			all = append(all, c)
			have[c.Type] = true
		}
	}
	for _, c := range theirs {
		if !have[c.Type] && (!apistatus.IsOfNode(c.Type) || c.Type == v1.PodScheduled) {
			all = append(all, c)
			have[c.Type] = true
		}
	}
	return all
}

// isDisruption reports whether a condition is the one of a pod that the node terminates.
func isDisruption(c v1.PodCondition) bool {
	return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
}

// prevails reports whether a disruption by the node replaces another writer's condition.
func prevails(c v1.PodCondition, theirs []v1.PodCondition) bool {
	i := slices.IndexFunc(theirs, func(their v1.PodCondition) bool { return their.Type == c.Type })
	return i < 0 || theirs[i].Status != v1.ConditionTrue
}
