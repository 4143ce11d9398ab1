package status

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
)

// Reasons for conditions that are not true.
const (
	containersNotInitialized = "ContainersNotInitialized"
	containersNotReady       = "ContainersNotReady"
	readinessGatesNotReady   = "ReadinessGatesNotReady"
	podCompleted             = "PodCompleted"
	podFailed                = "PodFailed"
)

// addConditions adds the pod's conditions: first other writers', then those that
// GeneratePodStatus decides.
func (v *view) addConditions(s *v1.PodStatus) {
	s.Conditions = make([]v1.PodCondition, 0, len(v.Pod.Status.Conditions)+len(v.Conditions)+ownConditions)
	v.keepConditions(s)
	containers := v.containersReady(s)
	own := [...]v1.PodCondition{
		v.readyToStart(), v.podInitialized(s), v.podReady(s, containers), containers,
		{Type: v1.PodScheduled, Status: v1.ConditionTrue},
	}
	for i := range own {
		v.stamp(&own[i])
	}
	s.Conditions = append(s.Conditions, own[:]...)
}

// ConditionsInput is the input for [ReadyConditions].
type ConditionsInput struct {
	// Pod is the desired pod. Required.
	Pod *v1.Pod
	// Status has the phase, see [Phase], the containers' statuses, whose fields Ready and Started count, and the conditions that
	// the pod's readiness gates name.
	Status v1.PodStatus
	// Previous are the conditions reported before. A condition whose status has not changed keeps its transition time.
	Previous []v1.PodCondition
	// Now is the transition time for the other conditions. Zero leaves it
	// unset.
	Now time.Time
}

// ReadyConditions returns the conditions a pod's Initialized, Ready and ContainersReady, as a kubelet's
// GeneratePodInitializedCondition, GeneratePodReadyCondition and GenerateContainersReadyCondition do. It returns nil for an
// Input without a pod.
func ReadyConditions(in ConditionsInput) []v1.PodCondition {
	if in.Pod == nil {
		return nil
	}
	v, s := viewOf(in.Pod, in.Status)
	v.before, v.Now = &v1.PodStatus{Conditions: in.Previous}, in.Now
	containers := v.containersReady(&s)
	all := []v1.PodCondition{v.podInitialized(&s), v.podReady(&s, containers), containers}
	for i := range all {
		v.stamp(&all[i])
	}
	return all
}

// ownConditions is how many conditions GeneratePodStatus decides.
const ownConditions = 5

// Decides reports whether GeneratePodStatus decides conditions with that type. With a status of the API, those with any other
// type are from other writers, such as readiness gates, or from the agent.
func Decides(t v1.PodConditionType) bool {
	switch t {
	case v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled:
		return true
	}
	return false
}

// IsOfNode reports whether only the node writes conditions with that type: GeneratePodStatus decides them, or the agent passes
// them in each Input. A condition with such a type that is not in a status is no longer true.
func IsOfNode(t v1.PodConditionType) bool {
	switch t {
	case v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		return true
	}
	return Decides(t)
}

// keepConditions adds the conditions from other writers and the agent. It keeps a disruption by the agent until the API
// server has it. A disruption with another reason belongs to its writer, who may take it back (kubernetes #113578).
func (v *view) keepConditions(s *v1.PodStatus) {
	for i := range v.Pod.Status.Conditions {
		if c := v.Pod.Status.Conditions[i]; !IsOfNode(c.Type) {
			s.Conditions = append(s.Conditions, c)
		}
	}
	if c := find(v.before.Conditions, v1.DisruptionTarget); c != nil && c.Reason == v1.PodReasonTerminationByKubelet {
		put(s, *c)
	}
	for i := range v.Conditions {
		if c := v.Conditions[i]; !Decides(c.Type) {
			v.stamp(&c)
			put(s, c)
		}
	}
}

// DisruptionTarget returns the condition for a pod that the agent evicts, with the cause as
// message (KEP-3329). It has no transition time.
func DisruptionTarget(message string) v1.PodCondition {
	return v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, Message: message}
}

// stamp fills in a condition's common fields. The transition time is the reported one unless the
// status has changed.
func (v *view) stamp(c *v1.PodCondition) {
	c.ObservedGeneration = v.Pod.Generation
	c.LastTransitionTime = metav1.Time{}
	before := find(v.before.Conditions, c.Type)
	switch {
	case before != nil && before.Status == c.Status:
		c.LastTransitionTime = before.LastTransitionTime
	case !v.Now.IsZero():
		c.LastTransitionTime = metav1.NewTime(v.Now)
	}
}

// put adds a condition or replaces the one with its type.
func put(s *v1.PodStatus, c v1.PodCondition) {
	if at := find(s.Conditions, c.Type); at != nil {
		*at = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

func find(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

// readyToStart is true while the pod has a sandbox in which its containers can be started (KEP-3085).
func (v *view) readyToStart() v1.PodCondition {
	fit := actions.SandboxFault(v.Pod, v.Status) == actions.ReasonNone
	return v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: status(fit)}
}

// podInitialized is true once the init containers have succeeded and the sidecars have started. It
// stays true when they run again later.
func (v *view) podInitialized(s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if s.Phase == v1.PodSucceeded {
		c.Reason = podCompleted
		return c
	}
	if anyRan(s.ContainerStatuses) {
		return c
	}
	var room [few]string
	incomplete := room[:0]
	for i := range s.InitContainerStatuses {
		if k := &s.InitContainerStatuses[i]; !v.initDone(i, k) {
			incomplete = append(incomplete, k.Name)
		}
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = v1.ConditionFalse, containersNotInitialized
		c.Message = "containers with incomplete status: [" + strings.Join(incomplete, " ") + "]"
	}
	return c
}

func (v *view) initDone(i int, k *v1.ContainerStatus) bool {
	if runtime.IsSidecar(&v.Pod.Spec.InitContainers[i]) {
		return *k.Started
	}
	return k.Ready
}

// anyRan reports whether a container runs, or has run and does not wait for another run.
func anyRan(list []v1.ContainerStatus) bool {
	for i := range list {
		if list[i].State.Running != nil || list[i].State.Terminated != nil {
			return true
		}
	}
	return false
}

// containersReady is true if all containers are ready and the pod has not ended.
func (v *view) containersReady(s *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	switch s.Phase {
	case v1.PodSucceeded:
		c.Reason = podCompleted
		return c
	case v1.PodFailed:
		c.Reason = podFailed
		return c
	}
	var room [few]string
	if unready := v.addUnready(room[:0], s); len(unready) > 0 {
		c.Reason = containersNotReady
		c.Message = "containers with unready status: [" + strings.Join(unready, " ") + "]"
		return c
	}
	c.Status = v1.ConditionTrue
	return c
}

// few is how many names fit on the stack.
const few = 8

func (v *view) addUnready(names []string, s *v1.PodStatus) []string {
	for i := range s.InitContainerStatuses {
		if k := &s.InitContainerStatuses[i]; runtime.IsSidecar(&v.Pod.Spec.InitContainers[i]) && !k.Ready {
			names = append(names, k.Name)
		}
	}
	for i := range s.ContainerStatuses {
		if k := &s.ContainerStatuses[i]; !k.Ready {
			names = append(names, k.Name)
		}
	}
	return names
}

// podReady is true if the containers are ready and every readiness gate's condition is true (KEP-580).
func (v *view) podReady(s *v1.PodStatus, containers v1.PodCondition) v1.PodCondition {
	c := containers
	c.Type = v1.PodReady
	if c.Status != v1.ConditionTrue {
		return c
	}
	if closed := closedGates(v.Pod.Spec.ReadinessGates, s.Conditions); len(closed) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, readinessGatesNotReady, foreign.Cut(strings.Join(closed, ", "), maxGates)
	}
	return c
}

// maxGates limits the message about readiness gates, in bytes: a pod may have ten thousand gates, and as many conditions.
const maxGates = 16 << 10

// closedGates returns why the conditions of readiness gates are not true.
func closedGates(gates []v1.PodReadinessGate, conditions []v1.PodCondition) (closed []string) {
	if len(gates) == 0 {
		return nil
	}
	states := make(map[v1.PodConditionType]v1.ConditionStatus, len(conditions))
	for i := range conditions {
		if _, again := states[conditions[i].Type]; !again {
			states[conditions[i].Type] = conditions[i].Status
		}
	}
	for _, gate := range gates {
		switch state, found := states[gate.ConditionType]; {
		case !found:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case state != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, state))
		}
	}
	return closed
}

func status(is bool) v1.ConditionStatus {
	if is {
		return v1.ConditionTrue
	}
	return v1.ConditionFalse
}
