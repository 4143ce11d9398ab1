package simulation

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// hadItsRun checks that no pod is reported as finished without a run that could finish it: of a
// regular container, or of an init container that failed. Pods that are no longer wanted are
// exempt. An init container in an unknown state counts as failed, because its success may be
// observed only after the pod has finished. After the loss of a pod's records, the agent takes an
// exit that the runtime reports for the end of a run, because it does not know that the container
// was never started.
func (tr *trace) hadItsRun(v *verdict) {
	failed := map[types.UID]bool{}
	for _, s := range tr.statuses {
		known := tr.pods[s.uid]
		if phaseOrder[s.status.Phase] != 3 || s.status.Reason == "DeadlineExceeded" || tr.asked(s.uid) || !known.unwanted().IsZero() && !known.unwanted().After(s.at) {
			continue
		}
		failed[s.uid] = failed[s.uid] || tr.couldNotRun(s)
		kept := failed[s.uid] || len(tr.recordsLost[s.uid]) > 0 && reportsAnEnd(s.status) || slices.ContainsFunc(tr.of(s.uid), func(i *instance) bool {
			return !i.Started.After(s.at) && strings.HasPrefix(i.Container, "c")
		})
		v.want(kept, "%s: it is %s at %s and has not run", s.uid, s.status.Phase, clock(s.at))
	}
}

// reportsAnEnd reports whether a status has the end of a regular container that the runtime had.
func reportsAnEnd(status v1.PodStatus) bool {
	return slices.ContainsFunc(status.ContainerStatuses, func(c v1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ContainerID != ""
	})
}

// couldNotRun reports whether a status contains a container whose failure fails the pod: a container that
// the runtime refused to start, or an init container that ran and was lost.
func (tr *trace) couldNotRun(s published) bool {
	return slices.ContainsFunc(containerStatuses(s.status), func(c v1.ContainerStatus) bool {
		ran := strings.HasPrefix(c.Name, "i") && slices.ContainsFunc(tr.of(s.uid), func(i *instance) bool {
			return i.Container == c.Name && !i.Started.After(s.at)
		})
		return slices.ContainsFunc(ended(c), func(end *v1.ContainerStateTerminated) bool {
			_, id, _ := strings.Cut(end.ContainerID, "://")
			return end.ExitCode != 0 && (ran || tr.refused(id, s.at))
		})
	})
}

// refused reports whether a call to start a container failed, and the runtime never ran
// it.
func (tr *trace) refused(id string, by time.Time) bool {
	return tr.instances[id] == nil && slices.ContainsFunc(tr.calls.Of(critest.StartContainer), func(c critest.Call) bool {
		return c.ContainerID == id && c.Err != nil && !c.Start.After(by)
	})
}

// newestRuns checks that what runs in the end is what its source said last.
func (tr *trace) newestRuns(v *verdict) {
	for _, c := range tr.containers {
		known := tr.pods[types.UID(c.Labels[runtime.LabelPodUID])]
		if known == nil || !known.unwanted().IsZero() || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		at := slices.IndexFunc(known.pod.Spec.Containers, func(spec v1.Container) bool { return spec.Name == c.GetMetadata().GetName() })
		if at < 0 {
			continue
		}
		want, got := known.pod.Spec.Containers[at].Image, c.GetImage().GetUserSpecifiedImage()
		v.want(got == want, "%s %s has the image %s, and not %s", known.pod.UID, c.GetMetadata().GetName(), got, want)
	}
}

// debugOnce checks that an ephemeral container runs at most once.
func (tr *trace) debugOnce(v *verdict) {
	for _, uid := range tr.uids() {
		var before *instance
		for _, i := range tr.of(uid) {
			if i.Container != "e0" {
				continue
			}
			v.want(before == nil || tr.recordLost(uid, before.Started, i.Started), "%v after %v", i, before)
			before = i
		}
	}
}

// addressesStay checks that a pod which had an address has one, its old one or another.
func (tr *trace) addressesStay(v *verdict) {
	last := map[types.UID]published{}
	for _, s := range tr.statuses {
		if before, ok := last[s.uid]; ok && before.status.PodIP != "" && !tr.recordLost(s.uid, before.at, s.at) {
			v.want(s.status.PodIP != "", "%s: no address at %s after %s", s.uid, clock(s.at), before.status.PodIP)
		}
		last[s.uid] = s
	}
}

// staysUp checks that running pods that match their desired state are left alone, also when the
// agent ends. A start whose success did not reach the agent is undone.
func (tr *trace) staysUp(v *verdict) {
	if !tr.quiet("restart runtime", "restart both", "sandbox lost", "late address", "change", "resize") {
		return
	}
	for _, c := range tr.calls.Of(critest.StopContainer) {
		known, i := tr.pods[types.UID(c.PodUID)], tr.instances[c.ContainerID]
		if known == nil || i == nil || !i.runsAt(c.Start) || !tr.startAnswered(i) || known.kind.outcome != runs || known.pod.Spec.Containers[0].Lifecycle != nil {
			continue
		}
		wanted := (known.unwanted().IsZero() || known.unwanted().After(c.Start)) && !tr.asked(known.pod.UID)
		v.want(!wanted, "%v at %s, %v is wanted", c, clock(c.Start), i)
	}
}

// startAnswered reports whether a call that started an instance has succeeded.
func (tr *trace) startAnswered(i *instance) bool {
	return slices.ContainsFunc(tr.calls.Of(critest.StartContainer), func(c critest.Call) bool {
		return c.ContainerID == i.ContainerID && c.Done() && c.Err == nil && tr.livedOn(c)
	})
}

// oneOfAName holds static pods of one full name apart: no process of the one runs
// while one of the other does.
func (tr *trace) oneOfAName(v *verdict) {
	byName := map[string][]*instance{}
	for _, i := range tr.inOrder() {
		known := tr.pods[types.UID(i.PodUID)]
		if known.source == runtime.ConfigSourceAPI {
			continue
		}
		name := known.owner.name + known.pod.Name
		for _, o := range byName[name] {
			if o.PodUID != i.PodUID {
				v.want(!o.Overlaps(i.Process), "%v and %v", o, i)
			}
		}
		byName[name] = append(byName[name], i)
	}
}

func (tr *trace) ownOnly(v *verdict) {
	for _, c := range tr.calls.Changes() {
		if known := tr.pods[types.UID(c.PodUID)]; known != nil {
			v.want(strings.HasPrefix(c.Caller, known.owner.name+" "), "%v at %s by %s, it is of %s", c, clock(c.Start), c.Caller, known.owner.name)
		}
	}
}

// longEnough is the time after which the handler of a running container must have run, regardless of failures of the
// agent and the runtime.
const longEnough = 5 * time.Minute

func (tr *trace) hooked(v *verdict) {
	handled := map[string]bool{}
	for _, c := range tr.calls.Of(critest.ExecSync) {
		handled[c.ContainerID] = true
	}
	for _, i := range tr.inOrder() {
		hook := slices.ContainsFunc(tr.pods[types.UID(i.PodUID)].pod.Spec.Containers, func(c v1.Container) bool {
			return c.Name == i.Container && c.Lifecycle != nil && c.Lifecycle.PostStart != nil
		})
		if ran := tr.ended(i).Sub(i.Started); hook && ran > longEnough {
			v.want(handled[i.ContainerID], "%v ran for %v without its handler", i, ran)
		}
	}
}

// ended is when an instance ended, or the life.
func (tr *trace) ended(i *instance) time.Time {
	if i.Ended.IsZero() {
		return tr.end
	}
	return i.Ended
}

// resized judges the containers that run at the end. If a container's resources could not be recorded when it was
// created, they are unknown, and it is not judged.
func (tr *trace) resized(v *verdict) {
	for _, i := range tr.inOrder() {
		known := tr.pods[types.UID(i.PodUID)]
		quota, listed := tr.quotas[i.ContainerID] // a container that started during takeStock is not listed
		if listed && i.Container == "c0" && i.Ended.IsZero() && known.cpu > 0 && known.unwanted().IsZero() && !tr.recordLost(known.pod.UID, i.Started, tr.end) {
			v.want(quota == 100*known.cpu, "%v has a quota of %d for %d", i, quota, known.cpu)
		}
	}
}
