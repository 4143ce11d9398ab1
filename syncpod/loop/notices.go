package loop

import (
	v1 "k8s.io/api/core/v1"

	"github.com/go-logr/logr"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/podref"
)

// notices are the log lines and the events about pods.
type notices struct {
	logger logr.Logger
	events syncpod.EventRecorder // nil if the embedder has none
}

// log returns the logger of a pod.
func (n notices) log(pod *v1.Pod) logr.Logger { return podref.Log(n.logger, pod) }

// podEvent records a warning about a pod.
func (n notices) podEvent(pod *v1.Pod, reason, message string) {
	if n.events != nil {
		n.events.Eventf(podref.Pod(pod), v1.EventTypeWarning, reason, "%s", message)
	}
}
