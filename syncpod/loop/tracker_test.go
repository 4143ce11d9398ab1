package loop

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
)

// W6: if two phases of a pod are reported in the wrong order, the later phase is kept, so that a container that starts late
// is removed. A new pod with the same UID begins with the first phase.
func TestW6_StepsOfALifeInEitherOrder(t *testing.T) {
	l := &Loop{config: Config{Finished: func(types.UID) {}}, table: &podTable{housekeeping: make(flag, 1)}, states: &podStates{pods: map[types.UID]*podState{}}}
	o := work{loop: l}
	o.PodAdded("u")
	o.PhaseChanged("u", podworkers.Terminated, podworkers.Finished)
	o.PhaseChanged("u", podworkers.Terminating, podworkers.Terminated)
	o.PhaseChanged("u", podworkers.Syncing, podworkers.Terminating)
	if got := l.states.get("u"); got.phase != podworkers.Finished || got.busy() || !got.ends() {
		t.Errorf("the phase is %v, want Finished", got.phase)
	}
	o.PodAdded("u")
	o.PhaseChanged("u", podworkers.Syncing, podworkers.Terminating)
	if got := l.states.get("u").phase; got != podworkers.Terminating {
		t.Errorf("the phase of the next life is %v, want Terminating", got)
	}
}
