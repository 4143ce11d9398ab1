package eviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node's conditions, and their number.
const (
	memoryPressure = iota
	diskPressure
	pidPressure
	conditions
)

// pressure is a condition's state between decisions.
type pressure struct {
	// seen is when a threshold for the condition was last met, zero if never.
	seen time.Time
	// on is the last reported state, since changed.
	on      bool
	changed time.Time
}

// conditionOf returns a signal's condition.
func conditionOf(s Signal) int {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
		return memoryPressure
	case PIDAvailable:
		return pidPressure
	}
	return diskPressure
}

// press determines the node's pressures: those from each threshold that is met, or was
// met within the transition period.
func (d *Decision) press(r Rules, s *State, now time.Time) {
	all := s.Memory.pressure
	for _, m := range d.Met {
		all[conditionOf(m.Signal)].seen = now
	}
	for i := range all {
		p := &all[i]
		age := now.Sub(p.seen)
		on := !p.seen.IsZero() && age >= 0 && (age == 0 || age < r.TransitionPeriod)
		if on != p.on || p.changed.IsZero() {
			p.on, p.changed = on, now
		}
		d.Conditions = append(d.Conditions, p.condition(i))
	}
	d.Memory.pressure = all
}

// condition returns the condition to report.
func (p *pressure) condition(of int) v1.NodeCondition {
	words := conditionWords(of)
	c := v1.NodeCondition{Type: words.name, Status: v1.ConditionFalse, Reason: words.noReason, Message: words.noMessage, LastTransitionTime: metav1.NewTime(p.changed)}
	if p.on {
		c.Status, c.Reason, c.Message = v1.ConditionTrue, words.reason, words.message
	}
	return c
}

type wordsOf struct {
	name                                 v1.NodeConditionType
	reason, message, noReason, noMessage string
}

func conditionWords(of int) wordsOf {
	switch of {
	case memoryPressure:
		return wordsOf{v1.NodeMemoryPressure, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
			"KubeletHasSufficientMemory", "kubelet has sufficient memory available"}
	case diskPressure:
		return wordsOf{v1.NodeDiskPressure, "KubeletHasDiskPressure", "kubelet has disk pressure",
			"KubeletHasNoDiskPressure", "kubelet has no disk pressure"}
	}
	return wordsOf{v1.NodePIDPressure, "KubeletHasInsufficientPID", "kubelet has insufficient PID available",
		"KubeletHasSufficientPID", "kubelet has sufficient PID available"}
}
