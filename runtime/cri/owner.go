package cri

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime"
)

// LabelOwner is the label on every sandbox and container that podsync creates. Its value names the
// agent that created the object.
//
// The Kubernetes API would reject the key, on purpose: it has two slashes. A sandbox also carries
// its pod's labels, and no pod may claim another agent's mark. A runtime accepts any text as a
// label.
const LabelOwner = "podsync.io/agent/owner"

// DefaultOwner names an agent for which no name is configured.
const DefaultOwner = "podsync"

// Owner determines which sandboxes and containers in a runtime belong to this agent. The agent
// ignores all others, because several agents may share one runtime (kubernetes #97190). The zero
// Owner is the agent "podsync".
type Owner struct {
	// Name marks the objects that this agent creates. It is a Kubernetes label value with at most
	// 63 characters. Two agents on one runtime need different names. Default DefaultOwner.
	Name string
	// AdoptUnmarked includes pods that have the Kubernetes pod labels and no agent's mark: a
	// kubelet's pods. Never set it while that kubelet runs.
	AdoptUnmarked bool
}

// Validate returns an error if the name is invalid.
func (o Owner) Validate() error {
	if problems := validation.IsValidLabelValue(o.name()); len(problems) > 0 {
		return fmt.Errorf("cri: Owner.Name %q: %s", o.Name, strings.Join(problems, "; "))
	}
	return nil
}

// Mark returns labels, copied, with the agent's mark.
func (o Owner) Mark(labels map[string]string) map[string]string {
	marked := make(map[string]string, len(labels)+1)
	maps.Copy(marked, labels)
	marked[LabelOwner] = o.name()
	return marked
}

// Owns reports whether an object with these labels belongs to the agent.
func (o Owner) Owns(labels map[string]string) bool {
	owner, marked := labels[LabelOwner]
	if !marked {
		return o.AdoptUnmarked && labels[runtime.LabelPodUID] != ""
	}
	return owner == o.name()
}

// Selector returns a label selector that excludes objects from other agents. It returns nil if it
// can exclude none. The caller must still check the results with Owns.
func (o Owner) Selector() map[string]string {
	if o.AdoptUnmarked {
		return nil
	}
	return map[string]string{LabelOwner: o.name()}
}

func (o Owner) name() string {
	if o.Name == "" {
		return DefaultOwner
	}
	return o.Name
}
