package loop

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// admittedPods are the pods that run or are to run, in the order of their UIDs, as they are
// told to an Admission for each new pod. The list is guarded by Loop.mu. It is made anew only
// after something other than the addition of a pod: many pods come at once.
type admittedPods struct {
	pods []*v1.Pod
	// known: pods are these, unless work of any of them has ended since.
	known bool
	// ends is what podStates.ends was before.
	ends uint64
}

// admitted returns the pods that run or are to run, in the order of their UIDs. The list
// belongs to the caller.
func (l *Loop) admitted() []*v1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ends := l.states.endsNow(); !l.beside.known || l.beside.ends != ends {
		l.beside = admittedPods{known: true, ends: ends}
		for _, uid := range l.uids() {
			if state := l.states.get(uid); !state.ends() {
				l.beside.pods = append(l.beside.pods, l.workerPods[uid].pod)
			}
		}
	}
	return slices.Clone(l.beside.pods)
}

// admit enters a pod that is taken on. It must be called with mu held.
func (l *Loop) admit(pod *v1.Pod) {
	if state := l.states.get(pod.UID); !l.beside.known || state.ends() {
		return
	}
	at, _ := slices.BinarySearchFunc(l.beside.pods, pod, func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	l.beside.pods = slices.Insert(l.beside.pods, at, pod)
}
