package eviction

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// String returns the decision, one line for each step, in execution order.
func (d Decision) String() string {
	var text strings.Builder
	for _, c := range d.Conditions {
		if c.Status == "True" {
			fmt.Fprintf(&text, "tell %s: %s\n", c.Type, c.Message)
		}
	}
	for _, p := range d.Problems {
		fmt.Fprintf(&text, "%v\n", p)
	}
	for _, m := range d.Met {
		fmt.Fprintf(&text, "%v\n", m)
	}
	for _, r := range d.Reclaim {
		fmt.Fprintf(&text, "remove %v\n", r)
	}
	for _, e := range d.Evict {
		fmt.Fprintf(&text, "%v\n", e)
	}
	if d.waits != "" {
		fmt.Fprintf(&text, "no pod is evicted: %s\n", d.waits)
	}
	return text.String()
}

// String describes the threshold, the available amount, and whether pods are evicted for it.
func (m Met) String() string {
	text := fmt.Sprintf("met: %v: %s available", m.Threshold, amountOf(m.Signal, m.Reading.Available))
	if !m.Due {
		text += fmt.Sprintf(", since %s", m.Since.UTC().Format("15:04:05"))
	}
	return text
}

// Explain describes why a pod is evicted or not.
func (d Decision) Explain(pod types.UID) string {
	for _, e := range d.Evict {
		if e.Pod != nil && e.Pod.UID == pod {
			return e.String()
		}
	}
	at := -1
	for i, p := range d.ranked {
		if p.Pod.UID == pod {
			at = i
		}
	}
	switch {
	case d.due == nil && len(d.Evict) > 0:
		return "stays: it exceeds no limit of its own"
	case d.due == nil && len(d.Met) > 0:
		return fmt.Sprintf("stays: %v is not met for long enough", d.Met[0].Threshold)
	case d.due == nil:
		return "stays: the node is short of nothing"
	case at < 0 && d.waits != "":
		return "stays: " + d.waits
	case at < 0:
		return "stays: it does not run, or is ending"
	case runtime.IsCritical(d.ranked[at].Pod):
		return "stays: it is critical"
	case d.ranked[at].Usage == nil:
		return "stays: what it uses could not be read"
	case len(d.Reclaim) > 0:
		return fmt.Sprintf("stays: %v may make room enough", d.Reclaim[0])
	case d.waits != "":
		return "stays: " + d.waits
	}
	return fmt.Sprintf("stays: %d of %d go before it, and one goes at a time", at, len(d.ranked))
}
