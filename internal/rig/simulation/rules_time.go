package simulation

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// quiet reports whether none of these troubles befell a life. Rules of how long something
// takes judge only lives in which nothing but the agent can hold it up.
func (tr *trace) quiet(troubles ...string) bool {
	return !slices.ContainsFunc(troubles, func(name string) bool { return tr.met[name] > 0 })
}

// stopSlack is how much longer than its time a pod may take to stop: two seconds for what
// has to have its signal, one for calls.
const stopSlack = 3 * time.Second

// stopsSoon checks that unwanted pods stop in time, regardless of all failures except those of the runtime.
func (tr *trace) stopsSoon(v *verdict) {
	if !tr.quiet("calls go wrong", "restart runtime", "restart agent", "restart both") {
		return
	}
	for _, uid := range tr.uids() {
		known := tr.pods[uid]
		if known.unwanted().IsZero() {
			continue
		}
		told := tr.toldToStop(known, tr.end)
		if told.IsZero() {
			continue
		}
		until := told.Add(time.Duration(known.grace)*time.Second + stopSlack)
		if hastened := latest(told, known.hastened).Add(hastenedGrace*time.Second + stopSlack); !known.hastened.IsZero() && hastened.Before(until) {
			until = hastened
		}
		for _, i := range tr.of(uid) {
			if !tr.stubborn[i.ContainerID] {
				v.want(!i.runsAt(until), "%v, told at %s to stop in %d s, hastened at %s", i, clock(told), known.grace, clock(known.hastened))
			}
		}
	}
}

// waits checks that what fails again and again waits as long as is documented: the third
// start 10 s after the second end, each one after that twice as long as the one before, up
// to 5 min.
func (tr *trace) waits(v *verdict) {
	if !tr.quiet("calls go wrong", "restart runtime", "restart agent", "restart both", "change", "resize", "prune",
		"sandbox lost", "late address", "step clock", "unkillable") {
		return
	}
	for _, uid := range tr.uids() {
		if kind := tr.pods[uid].kind.name; kind != "crash" && kind != "sick" {
			continue
		}
		wait := 10 * time.Second
		all := slices.DeleteFunc(tr.of(uid), func(i *instance) bool { return i.Container != "c0" })
		for n := 2; n < len(all); n++ {
			waited := all[n].Started.Sub(all[n-1].Ended)
			v.want(waited > wait-time.Second, "%v after %v, %v of %v", all[n], all[n-1], waited, wait)
			wait = min(2*wait, 5*time.Minute)
		}
	}
}

// toldWithin is how long it takes at most until the end of a container is reported: if its
// pod is being stopped, when the others have ended, too.
const toldWithin = 15 * time.Second

// endsAreTold checks the quiet time at the end: everything but a late sandbox allows exits to be
// observed and reported. The results of a pod's sync are reported when it ends.
func (tr *trace) endsAreTold(v *verdict) {
	from, to := tr.end.Add(-rest+time.Minute), tr.end.Add(-toldWithin)
	for _, i := range tr.inOrder() {
		uid := types.UID(i.PodUID)
		if i.Container == "e0" || i.Ended.Before(from) || i.Ended.After(to) || !tr.pods[uid].unwanted().IsZero() ||
			tr.pods[uid].kind.name == "together" || tr.awaitsSandbox(uid, i.Ended.Add(toldWithin)) {
			continue
		}
		v.want(slices.ContainsFunc(tr.statuses, func(s published) bool {
			return s.uid == uid && !s.at.After(i.Ended.Add(toldWithin)) && tellsOfEnd(s, i.ContainerID)
		}), "%v: its end is not told", i)
	}
}

// awaitsSandbox reports whether a sandbox of a pod is being made at a time.
func (tr *trace) awaitsSandbox(uid types.UID, at time.Time) bool {
	return slices.ContainsFunc(tr.calls.Of(critest.RunPodSandbox), func(c critest.Call) bool {
		return c.PodUID == string(uid) && c.Start.Before(at) && (c.End.IsZero() || c.End.After(at))
	})
}

func tellsOfEnd(s published, id string) bool {
	for _, c := range containerStatuses(s.status) {
		for _, end := range ended(c) {
			if strings.HasSuffix(end.ContainerID, "://"+id) {
				return true
			}
		}
	}
	return false
}

// mostTries is how often what fails before a container runs is tried within a minute by
// one agent: a wait of 10 s is the first, and each one after that is twice as long. Each container pulls what it mounts.
const mostTries = 6

// triesSpaced counts the agent's requests to start a container. A resize is a new reason to try. The count restarts after
// a container has run; spaced judges its restarts.
func (tr *trace) triesSpaced(v *verdict) {
	if !tr.quiet("restart runtime", "restart both", "sandbox lost", "change") {
		return
	}
	starts := map[string][]time.Time{}
	for _, c := range tr.calls.Of(critest.RunPodSandbox, critest.CreateContainer, critest.PullImage) {
		known := tr.pods[types.UID(c.PodUID)]
		if known == nil || known.cpu > 0 || known.kind.name == "together" || tr.agentOf(known, c.Start) == nil {
			continue
		}
		key := strings.Join([]string{string(c.Method), c.PodUID, c.Container, c.Image, tr.agentOf(known, c.Start).from.String()}, " ")
		if tries := starts[key]; c.Method == critest.CreateContainer && len(tries) > 0 && tr.ranBetween(c, tries[len(tries)-1]) {
			starts[key] = nil
		}
		starts[key] = append(starts[key], c.Start)
		most := mostTries * max(1, mounting(known.pod, c.Image))
		if n := len(starts[key]) - most; n > 0 {
			gap := c.Start.Sub(starts[key][n-1])
			v.want(gap > time.Minute, "%v: try %d within %v", c, most+1, gap)
		}
	}
}

// mounting counts a pod's containers that mount an image.
func mounting(p *v1.Pod, image string) (n int) {
	for c := range runtime.AllContainers(p) {
		for _, m := range c.VolumeMounts {
			if slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == m.Name && v.Image != nil && v.Image.Reference == image }) {
				n++
			}
		}
	}
	return n
}

// ranBetween reports whether the container of a call has run since the last such call.
func (tr *trace) ranBetween(c critest.Call, last time.Time) bool {
	return slices.ContainsFunc(tr.of(types.UID(c.PodUID)), func(i *instance) bool {
		return i.Container == c.Container && i.Started.After(last) && i.Started.Before(c.Start)
	})
}

// hasRun reports whether the container of a call has run.
func (tr *trace) hasRun(c critest.Call) bool {
	return slices.ContainsFunc(tr.of(types.UID(c.PodUID)), func(i *instance) bool { return i.ContainerID == c.ContainerID })
}

// mostStarts is how often a container may be started within a minute by one agent: at
// once, again at once, after 10 s, 20 s and 40 s.
const mostStarts = 5

// spaced judges the restarts of failing containers. A change of the pod, the loss of its sandbox and
// a restart by restart rules are no failures. A clock that is set forward ends a back-off. A start that failed
// before the container ran is no restart: the first such failure because the runtime is unavailable has no wait, again
// after each success, and triesSpaced judges the others. An end that was removed from the runtime before the agent saw it is
// no failure that it could count.
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
			if a == nil || c.Err != nil && !tr.hasRun(c) {
				continue
			}
			key := c.Container + c.SandboxID + a.from.String()
			starts[key] = append(starts[key], c.Start)
			if n := len(starts[key]) - mostStarts - tr.pruned[uid+"/"+types.UID(c.Container)]; n > 0 {
				gap := c.Start.Sub(starts[key][n-1])
				v.want(gap > time.Minute, "%v: start %d within %v", c, len(starts[key])-n+1, gap)
			}
		}
	}
}
