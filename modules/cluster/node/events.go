package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// A Recorder records events. A record.EventRecorder of client-go implements it. It must not block.
type Recorder interface {
	Event(object runtime.Object, kind, reason, message string)
}

// The reasons for a kubelet's events about its node.
const (
	eventStarting           = "Starting"
	eventRebooted           = "Rebooted"
	eventReady              = "NodeReady"
	eventNotReady           = "NodeNotReady"
	eventSchedulable        = "NodeSchedulable"
	eventNotSchedulable     = "NodeNotSchedulable"
	eventSufficientMemory   = "NodeHasSufficientMemory"
	eventInsufficientMemory = "NodeHasInsufficientMemory"
	eventNoDiskPressure     = "NodeHasNoDiskPressure"
	eventDiskPressure       = "NodeHasDiskPressure"
	eventSufficientPID      = "NodeHasSufficientPID"
	eventInsufficientPID    = "NodeHasInsufficientPID"
)

// A nodeEvent is an event about the node.
type nodeEvent struct{ kind, reason, message string }

// statusEvent returns the event that reports a node condition.
func statusEvent(name, reason string) nodeEvent {
	return nodeEvent{v1.EventTypeNormal, reason, "Node " + name + " status is now: " + reason}
}

// changes returns the events for a change to a node's status: a reboot, and each changed condition.
// A new node has unknown pressures and is not ready.
func changes(name string, before, after *v1.NodeStatus) (all []nodeEvent) {
	if old, id := before.NodeInfo.BootID, after.NodeInfo.BootID; old != "" && id != "" && old != id {
		all = append(all, nodeEvent{v1.EventTypeWarning, eventRebooted, "Node " + name + " has been rebooted, boot id: " + id})
	}
	known := map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: v1.ConditionFalse}
	for _, c := range before.Conditions {
		known[c.Type] = c.Status
	}
	for _, c := range after.Conditions {
		if reason := reasonOf(c.Type, c.Status == v1.ConditionTrue); reason != "" && known[c.Type] != c.Status {
			all = append(all, statusEvent(name, reason))
		}
	}
	return all
}

// reasonOf returns the event's reason for a condition that becomes true or false, "" if there is no such event.
func reasonOf(condition v1.NodeConditionType, is bool) string {
	reasons := map[v1.NodeConditionType]map[bool]string{
		v1.NodeReady:          {true: eventReady, false: eventNotReady},
		v1.NodeMemoryPressure: {true: eventInsufficientMemory, false: eventSufficientMemory},
		v1.NodeDiskPressure:   {true: eventDiskPressure, false: eventNoDiskPressure},
		v1.NodePIDPressure:    {true: eventInsufficientPID, false: eventSufficientPID},
	}
	return reasons[condition][is]
}

// record records events about the node. It refers to the node as a kubelet does.
func (n *Node) record(events ...nodeEvent) {
	if n.config.Events == nil {
		return
	}
	node := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.config.Name, UID: types.UID(n.config.Name)}
	for _, e := range events {
		n.config.Events.Event(node, e.kind, e.reason, e.message)
	}
}

// recordSchedulable records that the node was cordoned or uncordoned. Only the heartbeat calls it.
func (n *Node) recordSchedulable(object *v1.Node) {
	if object.Spec.Unschedulable == n.unschedulable {
		return
	}
	n.unschedulable = object.Spec.Unschedulable
	reason := eventSchedulable
	if n.unschedulable {
		reason = eventNotSchedulable
	}
	n.record(statusEvent(n.config.Name, reason))
}
