package cri

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podsync/podsync/runtime"
)

// LabelOwner is the label on every sandbox and container that podsync makes. Its
// value is the name of the agent that made it.
//
// The key is on purpose none that the Kubernetes API accepts (it has two
// slashes): a sandbox carries its pod's own labels too, and no pod may claim
// another agent's mark. To a runtime a label is any text.
const LabelOwner = "podsync.io/agent/owner"

// DefaultOwner is the name of an agent that has not been given one.
const DefaultOwner = "podsync"

// Owner says which sandboxes and containers of a runtime belong to this agent.
// Everything else is neither seen nor touched, because several agents may share
// one runtime (kubernetes #97190). The zero Owner is the agent "podsync".
type Owner struct {
	// Name marks what this agent makes: at most 63 characters of a Kubernetes
	// label value. Two agents on one runtime need different names. Default
	// DefaultOwner.
	Name string
	// AdoptUnmarked also takes pods that carry the Kubernetes pod labels and no
	// agent's mark: those of a kubelet. Never set it while that kubelet runs.
	AdoptUnmarked bool
}

// Validate validates the name.
func (o Owner) Validate() error {
	if problems := validation.IsValidLabelValue(o.name()); len(problems) > 0 {
		return fmt.Errorf("cri: Owner.Name %q: %s", o.Name, strings.Join(problems, "; "))
	}
	return nil
}

// Mark returns a copy of labels with the agent's mark.
func (o Owner) Mark(labels map[string]string) map[string]string {
	marked := make(map[string]string, len(labels)+1)
	maps.Copy(marked, labels)
	marked[LabelOwner] = o.name()
	return marked
}

// Owns reports whether the labels are those of something that belongs to the
// agent.
func (o Owner) Owns(labels map[string]string) bool {
	owner, marked := labels[LabelOwner]
	if !marked {
		return o.AdoptUnmarked && labels[runtime.LabelPodUID] != ""
	}
	return owner == o.name()
}

// Selector returns a label selector that excludes objects of other agents, nil if none can be
// excluded. Its results must still pass Owns.
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
