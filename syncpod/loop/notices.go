package loop

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-logr/logr"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/internal/podref"
)

// notices are the log lines and the events about pods and about the node.
type notices struct {
	logger logr.Logger
	events syncpod.EventRecorder // nil if the embedder has none
	node   string                // its name, empty if it has none
}

// log returns the logger of a pod's lines.
func (n notices) log(pod *v1.Pod) logr.Logger { return podref.Log(n.logger, pod) }

// podEvent records a warning about a pod.
func (n notices) podEvent(pod *v1.Pod, reason, message string) {
	if n.events != nil {
		n.events.Eventf(podref.Pod(pod), v1.EventTypeWarning, reason, "%s", message)
	}
}

// nodeEvent records a warning about the node, which it names as a kubelet does.
func (n notices) nodeEvent(reason, message string) {
	if n.events == nil || n.node == "" {
		return
	}
	node := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.node, UID: types.UID(n.node)}
	n.events.Eventf(node, v1.EventTypeWarning, reason, "%s", message)
}
