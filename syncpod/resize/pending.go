package resize

import (
	"cmp"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/podref"
)

// ask records the pod's request, if it differs from the allocation.
func (e *entry) ask(now time.Time) {
	asked := allocationOf(e.pod)
	switch {
	case asked.equal(e.allocated.of(e.pod)):
		e.since, e.asked, e.verdict = time.Time{}, nil, Verdict{}
	case e.since.IsZero() || !asked.equal(e.asked):
		e.since, e.asked, e.verdict = now, asked, Verdict{}
	}
}

// settle decides on all pending resizes, in order, and again while an accepted one may make
// room for more. It returns the pod's error.
func (a *Allocator) settle(pod types.UID) error {
	var errs []error
	for again := true; again; {
		again = false
		for _, p := range a.pending() {
			accepted, err := a.try(p)
			if err != nil && p.Pod.UID == pod {
				errs = append(errs, err)
			} else if err != nil {
				a.config.Log.Error(err, "a resize is not accepted yet", "pod", podref.Name(p.Pod))
			}
			if accepted {
				again = true
				a.accepted = append(a.accepted, p.Pod.UID)
			}
		}
	}
	return errors.Join(errs...)
}

// pending returns the resizes that wait and are not infeasible, in order.
func (a *Allocator) pending() []pending {
	var list []pending
	for _, e := range a.pods {
		if e.pod != nil && !e.since.IsZero() && e.verdict.Outcome != Infeasible {
			list = append(list, pending{Pod: e.pod, Allocated: e.allocated.applyTo(e.pod), Since: e.since})
		}
	}
	order(list)
	return list
}

// try decides on one resize. The resize is accepted when its file is written.
func (a *Allocator) try(p pending) (accepted bool, err error) {
	e := a.pods[p.Pod.UID]
	verdict := a.decide(Request{Pod: p.Pod, Allocated: p.Allocated, ActivePods: a.activePods(p.Pod.UID), Allocatable: a.config.Allocatable})
	if a.config.Check != nil {
		if err := a.config.Check(p.Allocated, p.Pod); err != nil {
			verdict = Verdict{Infeasible, err.Error()}
		}
	}
	switch verdict.Outcome {
	case Accepted:
	case Infeasible:
		e.verdict = verdict
		return false, nil
	default:
		e.verdict = Verdict{Deferred, verdict.Message}
		return false, nil
	}
	next := &entry{pod: e.pod, allocated: e.asked}
	if err := a.save(p.Pod.UID, next); err != nil {
		e.verdict = Verdict{Deferred, "What is allocated cannot be written down"}
		return false, err
	}
	a.pods[p.Pod.UID] = next
	a.config.Log.Info("resize accepted", "pod", podref.Name(p.Pod))
	return true, nil
}

// activePods returns the other pods with their allocations. The requests of a pod that the agent has not seen yet
// come from its file.
func (a *Allocator) activePods(uid types.UID) []*v1.Pod {
	var pods []*v1.Pod
	for other, e := range a.pods {
		switch {
		case other == uid:
		case e.pod != nil:
			pods = append(pods, e.allocated.applyTo(e.pod))
		default:
			pods = append(pods, standIn(other, e.requests))
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return pods
}

// standIn returns a pod with these requests.
func standIn(uid types.UID, requests v1.ResourceList) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}}}
	pod.UID = uid
	return pod
}
