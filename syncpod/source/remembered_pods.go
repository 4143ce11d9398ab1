package source

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// A recollection is what is known of the pods that a source wants: what it has said, and
// what is remembered of it until it has said all.
type recollection struct {
	remembered []*v1.Pod
	savedAt    time.Time
	// due: what is remembered is delivered if the source has not said all that it wants.
	due bool
	// said is the last snapshot of the source, and complete that one of them was.
	said     Snapshot
	complete bool
	// uids and names are those of which the source has spoken.
	uids  map[types.UID]bool
	names map[types.NamespacedName]bool
}

// hear takes a snapshot of the source.
func (r *recollection) hear(s Snapshot) {
	r.said = s
	if r.complete = r.complete || !s.Incomplete; r.complete {
		r.remembered, r.uids, r.names = nil, nil, nil
		return
	}
	if r.uids == nil {
		r.uids, r.names = map[types.UID]bool{}, map[types.NamespacedName]bool{}
	}
	for _, pod := range s.Pods {
		r.uids[pod.UID] = true
		r.names[nameOf(pod)] = true
	}
}

// spoken reports whether the source has said anything.
func (r *recollection) spoken() bool { return r.complete || r.uids != nil }

// snapshot is what is delivered.
func (r *recollection) snapshot() Snapshot {
	s := r.said
	if r.complete {
		return s
	}
	s.Incomplete = true
	if recalled := r.recalled(); r.due && len(recalled) > 0 {
		s.Pods = append(s.Pods[:len(s.Pods):len(s.Pods)], recalled...)
		s.Warnings = append(s.Warnings[:len(s.Warnings):len(s.Warnings)], fmt.Errorf(
			"%d pods are those remembered from %s: the source has not said yet what it wants", len(recalled), r.savedAt.UTC().Format(time.RFC3339)))
	}
	return s
}

// all are the pods that are to be remembered.
func (r *recollection) all() []*v1.Pod {
	return append(r.said.Pods[:len(r.said.Pods):len(r.said.Pods)], r.recalled()...)
}

// recalled are the pods that are remembered and of which the source has not spoken. One that
// is static gives way to one of its name, which is another version of it.
func (r *recollection) recalled() []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range r.remembered {
		if r.uids[pod.UID] || runtime.IsStatic(pod) && r.names[nameOf(pod)] {
			continue
		}
		pods = append(pods, pod)
	}
	return pods
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
