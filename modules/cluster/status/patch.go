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
)

// own are the types of the conditions that a node writes. All others are left as they are.
var own = []v1.PodConditionType{
	v1.PodScheduled, v1.PodReady, v1.PodInitialized, v1.ContainersReady, v1.PodReadyToStartContainers,
	v1.PodResizePending, v1.PodResizeInProgress,
}

// patch writes a status, if the pod has another one, and returns the pod as it is then.
func (m *Manager) patch(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) (*v1.Pod, error) {
	body, err := patchOf(pod, status)
	if err != nil || body == nil {
		return pod, err
	}
	return m.config.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
}

// patchOf returns the patch that gives a pod a status, nil if it has that.
func patchOf(pod *v1.Pod, status *v1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(v1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(v1.Pod{Status: merge(&pod.Status, status)})
	if err != nil {
		return nil, err
	}
	body, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil || string(body) == "{}" {
		return nil, err
	}
	return withIdentity(body, pod)
}

// withIdentity adds which pod a patch is for, and which version of it.
func withIdentity(body []byte, pod *v1.Pod) ([]byte, error) {
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	patch["metadata"] = map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}
	return json.Marshal(patch)
}

// merge returns the status to be, with what others have written.
func merge(theirs, ours *v1.PodStatus) v1.PodStatus {
	merged := *ours.DeepCopy()
	merged.NominatedNodeName = theirs.NominatedNodeName
	merged.ResourceClaimStatuses = theirs.ResourceClaimStatuses
	merged.ExtendedResourceClaimStatus = theirs.ExtendedResourceClaimStatus
	merged.QOSClass = cmp.Or(theirs.QOSClass, ours.QOSClass)
	merged.Conditions = conditions(theirs.Conditions, ours.Conditions)
	return merged
}

// conditions are those of the node, and those of others.
func conditions(theirs, ours []v1.PodCondition) (all []v1.PodCondition) {
	for _, c := range ours {
		if slices.Contains(own, c.Type) || !has(theirs, c.Type) && isShared(c.Type) {
			all = append(all, c)
		}
	}
	for _, c := range theirs {
		if !slices.Contains(own, c.Type) || c.Type == v1.PodScheduled && !has(ours, c.Type) {
			all = append(all, c)
		}
	}
	return all
}

// isShared reports whether nodes write a condition that others write, too.
func isShared(t v1.PodConditionType) bool { return t == v1.DisruptionTarget }

func has(conditions []v1.PodCondition, t v1.PodConditionType) bool {
	return slices.ContainsFunc(conditions, func(c v1.PodCondition) bool { return c.Type == t })
}
