package resize

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/podspec/qos"
	"github.com/podsync/podsync/syncpod/podspec/resources"
)

// pending is a change that was not accepted yet.
type pending struct {
	// Pod is the desired pod, Allocated the pod with its allocation.
	Pod, Allocated *v1.Pod
	// Since is when the resize was requested.
	Since time.Time
}

// order sorts resizes in the order in which to try them: first those that need no more resources, because they may make
// room; then by priority of the pod, the highest first; then Guaranteed pods before others; then the longest pending;
// then by UID. A resize that does not fit does not block the next ones.
func order(list []pending) {
	slices.SortFunc(list, func(a, b pending) int {
		return cmp.Or(
			cmp.Compare(rank(a.grows()), rank(b.grows())),
			cmp.Compare(priority(b.Pod), priority(a.Pod)),
			cmp.Compare(quality(a.Pod), quality(b.Pod)),
			a.Since.Compare(b.Since),
			cmp.Compare(a.Pod.UID, b.Pod.UID),
		)
	})
}

// grows reports whether the resize requests more of any resource.
func (p pending) grows() bool {
	for _, name := range names() {
		asked, has := resources.Requested(p.Pod, name), resources.Requested(p.Allocated, name)
		if asked.Cmp(has) > 0 {
			return true
		}
	}
	return false
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func quality(pod *v1.Pod) int {
	switch qos.Class(pod) {
	case v1.PodQOSGuaranteed:
		return 0
	case v1.PodQOSBurstable:
		return 1
	}
	return 2
}
