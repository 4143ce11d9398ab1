package agent

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
)

// nodeEvents records warnings about the node.
type nodeEvents string // its name, empty for none

// warn records a warning. The involved object is that of a kubelet's events.
func (n nodeEvents) warn(events syncpod.EventRecorder, reason, message string) {
	if n == "" {
		return
	}
	node := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(n), UID: types.UID(n)}
	events.Eventf(node, v1.EventTypeWarning, reason, "%s", message)
}
