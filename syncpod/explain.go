package syncpod

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/foreign"
)

// NextInput returns the last decision's input on a pod, with a newer status and without back-offs that have ended since.
// The pod's parts are not asked again. It returns false if the Syncer does not know the pod, or has not decided on it
// yet. The input must not be modified.
func (s *Syncer) NextInput(uid types.UID, status *runtime.PodStatus) (actions.Input, bool) {
	m := s.known.get(uid)
	if m == nil {
		return actions.Input{}, false
	}
	decided, _, _ := m.lastDecision()
	if decided == nil {
		return actions.Input{}, false
	}
	in, now := *decided, time.Now()
	if status != nil {
		in.Status = m.completed(status)
	}
	ended := func(_ string, h actions.Hold) bool { return !h.Until.IsZero() && !h.Until.After(now) }
	in.StartHolds, in.ResizeHolds, in.CPUSetHolds = maps.Clone(in.StartHolds), maps.Clone(in.ResizeHolds), maps.Clone(in.CPUSetHolds)
	maps.DeleteFunc(in.StartHolds, ended)
	maps.DeleteFunc(in.ResizeHolds, ended)
	maps.DeleteFunc(in.CPUSetHolds, ended)
	if ended("", in.SandboxHold) {
		in.SandboxHold = actions.Hold{}
	}
	return in, true
}

// Explain describes, for people, what happens next to a pod and to each of its containers, the reason,
// and what it waits for and until when, as the last SyncPod decided. It returns "" for a pod that no
// SyncPod has decided on. The texts may change.
func (s *Syncer) Explain(uid types.UID) string {
	m := s.known.get(uid)
	if m == nil {
		return ""
	}
	decided, failed, deadline := m.lastDecision()
	var text strings.Builder
	if !deadline.IsZero() {
		fmt.Fprintf(&text, "The pod is being stopped, and its grace period ends at %s.\n", deadline.UTC().Format(time.RFC3339))
	} else if decided != nil {
		text.WriteString(actions.ExplainPod(*decided))
	}
	for _, f := range failed {
		if f.Step == stepImage && !f.NotBefore.IsZero() {
			fmt.Fprintf(&text, "The image of %v is not pulled again before %s: %v.\n", f.Container, f.NotBefore.UTC().Format(time.RFC3339), foreign.Error(f.Err))
		}
	}
	return text.String()
}

// lastDecision returns the input of the last plan, the last reported errors, and the deadline of the pod if it is being
// stopped.
func (m *podMemory) lastDecision() (decided *actions.Input, failed []*StepError, deadline time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.decided, m.failed, m.pod.Deadline()
}
