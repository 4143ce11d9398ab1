package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// oneOfAName holds static pods of one full name apart: no process of the one runs
// while one of the other does.
func (tr *trace) oneOfAName(v *verdict) {
	byName := map[string][]*instance{}
	for _, i := range tr.inOrder() {
		known := tr.pods[types.UID(i.PodUID)]
		if known.source == runtime.ConfigSourceAPI {
			continue
		}
		name := known.party.name + known.pod.Name
		for _, o := range byName[name] {
			if o.PodUID != i.PodUID {
				v.want(!o.Overlaps(i.Process), "%v and %v", o, i)
			}
		}
		byName[name] = append(byName[name], i)
	}
}

// inOrder returns all that ran in the order of the starts.
func (tr *trace) inOrder() []*instance {
	var all []*instance
	for _, i := range tr.instances {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *instance) int { return a.order - b.order })
	return all
}

func (tr *trace) ownOnly(v *verdict) {
	for _, c := range tr.calls.Changes() {
		if known := tr.pods[types.UID(c.PodUID)]; known != nil {
			v.want(strings.HasPrefix(c.Caller, known.party.name+" "), "%v at %s by %s, it is of %s", c, clock(c.Start), c.Caller, known.party.name)
		}
	}
}

func (tr *trace) killsAnswered(v *verdict) {
	for _, k := range tr.kills {
		v.want(!k.answered.IsZero() && !errors.Is(k.err, context.DeadlineExceeded), "the kill of %s at %s is never answered", k.uid, clock(k.at))
		if k.err != nil || k.answered.IsZero() {
			continue
		}
		for _, i := range tr.of(k.uid) {
			kept := i.Started.Before(k.answered) && !i.runsAt(k.answered)
			v.want(kept || tr.lapsed(k.uid, k.at, i.Started), "%v, its kill was answered at %s", i, clock(k.answered))
		}
	}
}

// endsAreTrue holds against the truth what is told of ends with a container's ID.
func (tr *trace) endsAreTrue(v *verdict) {
	for _, s := range tr.statuses {
		for _, c := range containerStatuses(s.status) {
			for _, end := range ended(c) {
				_, id, _ := strings.Cut(end.ContainerID, "://")
				if i := tr.instances[id]; i != nil {
					v.want(!i.Ended.IsZero() && !i.Ended.After(s.at), "%v, told to have ended at %s", i, clock(s.at))
				}
			}
		}
	}
}

func (tr *trace) readyIsTrue(v *verdict) {
	succeeded := map[string]time.Time{} // the first probe, by container ID
	for _, c := range tr.calls.Of(critest.ExecSync) {
		answer, ok := c.Response().(*runtimeapi.ExecSyncResponse)
		if _, before := succeeded[c.ContainerID]; ok && answer.ExitCode == 0 && !before {
			succeeded[c.ContainerID] = c.End
		}
	}
	for _, s := range tr.statuses {
		for _, c := range s.status.ContainerStatuses {
			if !c.Ready || !tr.probed(s.uid, c.Name) {
				continue
			}
			_, id, _ := strings.Cut(c.ContainerID, "://")
			at, ok := succeeded[id]
			v.want(ok && !at.After(s.at), "%s %s: ready at %s without a probe that has succeeded", s.uid, c.Name, clock(s.at))
		}
	}
}

func (tr *trace) probed(uid types.UID, container string) bool {
	return slices.ContainsFunc(tr.pods[uid].pod.Spec.Containers, func(c v1.Container) bool {
		return c.Name == container && c.ReadinessProbe != nil
	})
}

// longEnough is how long a container runs for its handler to have been run, whatever
// befalls agent and runtime.
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

// resized looks at what runs in the end. What resources it was made with is not known any
// more if that could not be noted.
func (tr *trace) resized(v *verdict) {
	for _, i := range tr.inOrder() {
		known := tr.pods[types.UID(i.PodUID)]
		if i.Container == "c0" && i.Ended.IsZero() && known.cpu > 0 && known.unwanted().IsZero() && !tr.lapsed(known.pod.UID, i.Started, tr.end) {
			v.want(tr.quotas[i.ContainerID] == 100*known.cpu, "%v has a quota of %d for %d", i, tr.quotas[i.ContainerID], known.cpu)
		}
	}
}

// mostStarts is how often a container may be started within a minute by one agent: at
// once, again at once, after 10 s, 20 s and 40 s.
const mostStarts = 5

// spaced judges the containers that fail. A change of the pod, the loss of its sandbox and
// a restart of it by its rules are no failures; and a clock that is set forward ends a wait.
func (tr *trace) spaced(v *verdict) {
	if tr.met["step clock"] > 0 {
		return
	}
	for _, uid := range tr.uids() {
		known := tr.pods[uid]
		if known.changed || known.cpu > 0 || known.kind.name == "together" {
			continue
		}
		starts := map[string][]time.Time{}
		for _, c := range tr.calls.Of(critest.StartContainer).Pod(string(uid)) {
			a := tr.agentOf(known, c.Start)
			if a == nil {
				continue
			}
			key := c.Container + c.SandboxID + a.from.String()
			starts[key] = append(starts[key], c.Start)
			if n := len(starts[key]) - mostStarts; n > 0 {
				gap := c.Start.Sub(starts[key][n-1])
				v.want(gap > time.Minute, "%v: start %d within %v", c, mostStarts+1, gap)
			}
		}
	}
}

// sidecarsLast judges the ends of pods that are stopped while all of them runs.
func (tr *trace) sidecarsLast(v *verdict) {
	for _, c := range tr.calls.Of(critest.StopContainer) {
		known := tr.pods[types.UID(c.PodUID)]
		timeout := tr.timeouts[c.N]
		if known == nil || known.unwanted().IsZero() || c.Start.Before(known.unwanted()) || !strings.HasPrefix(c.Container, "s") || timeout <= 2 {
			continue
		}
		for _, i := range tr.of(types.UID(c.PodUID)) {
			if strings.HasPrefix(i.Container, "c") {
				v.want(!i.runsAt(c.Start), "%v at %s with %d s while %v", c, clock(c.Start), timeout, i)
			}
		}
	}
}
