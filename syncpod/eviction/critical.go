package eviction

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// Admit reports whether a new pod may run on a node with these conditions; it considers a
// Decision's conditions. Under memory pressure alone, a pod may run if it is not BestEffort or
// tolerates the taint; under any other pressure only critical pods may. The message for a rejected
// pod is for people; the rejection's reason is Reason.
func Admit(pod *v1.Pod, node []v1.NodeCondition) (message string, ok bool) {
	var under []string
	for _, c := range node {
		if c.Status == v1.ConditionTrue && isPressure(c.Type) {
			under = append(under, string(c.Type))
		}
	}
	memoryAlone := len(under) == 1 && under[0] == string(v1.NodeMemoryPressure)
	switch {
	case len(under) == 0, runtime.IsCritical(pod):
		return "", true
	case memoryAlone && (qos.Class(pod) != v1.PodQOSBestEffort || toleratesMemoryPressure(pod)):
		return "", true
	}
	return fmt.Sprintf("The node had condition: [%s]. ", strings.Join(under, " ")), false
}

func isPressure(t v1.NodeConditionType) bool {
	return t == v1.NodeMemoryPressure || t == v1.NodeDiskPressure || t == v1.NodePIDPressure
}

func toleratesMemoryPressure(pod *v1.Pod) bool {
	for _, t := range pod.Spec.Tolerations {
		key := t.Key == v1.TaintNodeMemoryPressure || t.Key == "" && t.Operator == v1.TolerationOpExists
		effect := t.Effect == "" || t.Effect == v1.TaintEffectNoSchedule
		if key && effect && (t.Operator == v1.TolerationOpExists || t.Value == "" && (t.Operator == "" || t.Operator == v1.TolerationOpEqual)) {
			return true
		}
	}
	return false
}
