package source

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// A checkpointPods merges a source's snapshots with the checkpoint, which is used until the
// first complete snapshot.
type checkpointPods struct {
	checkpointed []*v1.Pod
	// confirmedAt is when the source last confirmed the pods, according to the file and to Confirm.
	confirmedAt time.Time
	// tooOld counts the pods in the checkpoint that are too old to be used.
	tooOld int
	// due means that the checkpoint is delivered until the source has delivered a complete
	// snapshot.
	due bool
	// said is the source's last snapshot. It counts as complete if any earlier one was.
	said     Snapshot
	complete bool
	// uids and names are the pods' that the source has mentioned.
	uids  map[types.UID]bool
	names map[types.NamespacedName]bool
}

// recall loads a checkpoint's pods, and when it was last confirmed. It returns the checkpoint's usable part: nothing
// if the checkpoint is older than maxAge, unless maxAge is 0. If the clock is behind the confirmation, the age is 0.
func (r *checkpointPods) recall(m checkpointData, confirmedAt, now time.Time, maxAge time.Duration) checkpointData {
	r.confirmedAt = confirmedAt
	if maxAge > 0 && now.Sub(confirmedAt) > maxAge {
		r.tooOld = len(m.Pods)
		return checkpointData{}
	}
	r.checkpointed = m.Pods
	return m
}

// hear records a source snapshot.
func (r *checkpointPods) hear(s Snapshot) {
	r.said = s
	if r.complete = r.complete || !s.Incomplete; r.complete {
		r.checkpointed, r.uids, r.names, r.tooOld = nil, nil, nil, 0
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

// spoken reports whether the source has delivered anything.
func (r *checkpointPods) spoken() bool { return r.complete || r.uids != nil }

// snapshot returns the snapshot to deliver.
func (r *checkpointPods) snapshot() Snapshot {
	s := r.said
	if r.complete {
		return s
	}
	s.Incomplete = true
	if recalled := r.recalled(); r.due && len(recalled) > 0 {
		s.Pods = append(s.Pods[:len(s.Pods):len(s.Pods)], recalled...)
		s.Warnings = append(s.Warnings[:len(s.Warnings):len(s.Warnings)], fmt.Errorf(
			"%d pods come from the checkpoint of %s: the source has not delivered its pods yet", len(recalled), r.confirmedAt.UTC().Format(time.RFC3339)))
	}
	if r.due && r.tooOld > 0 {
		s.Warnings = append(s.Warnings[:len(s.Warnings):len(s.Warnings)], fmt.Errorf(
			"%d pods of the checkpoint of %s do not run: they are older than source.CheckpointConfig.MaxAge, and the source has not delivered its pods yet", r.tooOld, r.confirmedAt.UTC().Format(time.RFC3339)))
	}
	return s
}

// all returns the next checkpoint's pods.
func (r *checkpointPods) all() []*v1.Pod {
	return append(r.said.Pods[:len(r.said.Pods):len(r.said.Pods)], r.recalled()...)
}

// recalled returns the pods in the checkpoint that the source has not mentioned. A static pod is
// replaced by one with the same name, which is its other version.
func (r *checkpointPods) recalled() []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range r.checkpointed {
		if r.uids[pod.UID] || runtime.IsStatic(pod) && r.names[nameOf(pod)] {
			continue
		}
		pods = append(pods, pod)
	}
	return pods
}

// wantedAt returns the SavedAt for the checkpoint to be written: the last confirmation if the source has not
// confirmed all pods yet, and otherwise zero, which means when it is written.
func (r *checkpointPods) wantedAt() time.Time {
	if len(r.recalled()) == 0 {
		return time.Time{}
	}
	return r.confirmedAt
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
