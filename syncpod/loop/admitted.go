package loop

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// admittedPods are the active pods, which run or will run, sorted by UID; an Admission receives
// them for each new pod. podTable.mu guards the list. It is rebuilt only after a change other than
// a pod's addition, because many pods may come at once.
type admittedPods struct {
	pods []*v1.Pod
	// known means that pods is current, unless the work on one of them has ended since then.
	known bool
	// ends is the value of podStates.ends when pods was built.
	ends uint64
}

// admitted returns the pods that run or should run, ordered by their UIDs. The list belongs to the
// caller.
func (t *podTable) admitted() []*v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ends := t.states.endsNow(); !t.activePods.known || t.activePods.ends != ends {
		t.activePods = admittedPods{known: true, ends: ends}
		for _, uid := range t.uids() {
			if state := t.states.get(uid); !state.ends() {
				t.activePods.pods = append(t.activePods.pods, t.pods[uid].pod)
			}
		}
	}
	return slices.Clone(t.activePods.pods)
}

// admit adds a pod that was admitted. It must be called with mu held.
func (t *podTable) admit(pod *v1.Pod) {
	if state := t.states.get(pod.UID); !t.activePods.known || state.ends() {
		return
	}
	at, _ := slices.BinarySearchFunc(t.activePods.pods, pod, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	t.activePods.pods = slices.Insert(t.activePods.pods, at, pod)
}
