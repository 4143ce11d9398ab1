package syncpod

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/foreign"
)

// Explain describes, for people, what happens next to a pod and to each of its containers, the reason,
// and what it waits for and until when, as the last SyncPod decided. It returns "" for a pod that no
// SyncPod has decided on. The texts may change.
func (s *Syncer) Explain(uid types.UID) string {
	m := s.known.get(uid)
	if m == nil {
		return ""
	}
	m.mu.Lock()
	decided, failed, deadline := m.decided, m.failed, m.pod.Deadline()
	m.mu.Unlock()
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
