package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// slowPull is how long a slow pull takes. Work that takes ten minutes is not healthy.
const slowPull = 9 * time.Minute

// pullSlowly adds an ephemeral container to a pod that restarts, if the life has one, and makes the pull of its
// image slow.
func (w *world) pullSlowly() {
	pods := slices.DeleteFunc(w.wantedPods(runtime.ConfigSourceAPI), func(p *v1.Pod) bool {
		kind := w.trace.pods[p.UID].kind.name
		return kind != "crash" && kind != "sick" || len(p.Spec.EphemeralContainers) > 0 || w.trace.asked(p.UID)
	})
	if len(pods) == 0 {
		return
	}
	p := pods[w.objects.rng.IntN(len(pods))].DeepCopy()
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "e0", Image: "registry.test/slow:1", ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sleep", "5"},
	}}}
	gate := new(faults.Gate)
	i, err := w.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.PullImage, Image: "registry.test/slow:1"}, Times: faults.Always, Hang: gate})
	w.check(err)
	w.say("debug %s with an image whose pull takes %v", p.UID, slowPull)
	w.trace.met["slow pull"]++
	w.trace.slow[p.UID] = time.Now()
	w.replace(p)
	w.after(slowPull, func() { gate.Open(); i.Remove() })
}

// restartsBesideFlights checks that containers restart on time while an image is being pulled for another container of their pod, or
// its postStart handler runs: the first restart at once, the second after 10 s, each other one after twice the time of the one before.
func (tr *trace) restartsBesideFlights(v *verdict) {
	for _, uid := range tr.uids() {
		if from, slow := tr.slow[uid]; slow {
			tr.restartsOnTime(v, uid, from, from.Add(slowPull))
		} else if known := tr.pods[uid]; known.hooked && known.removed.IsZero() && !tr.asked(uid) {
			tr.restartsOnTime(v, uid, tr.end.Add(-rest), tr.end)
		}
	}
}

// restartsOnTime judges the restarts of the containers of a pod that have no handler, between two times.
func (tr *trace) restartsOnTime(v *verdict, uid types.UID, from, until time.Time) {
	last := map[string]*instance{}
	runs := map[string]int{}
	judge := func(before *instance, next time.Time, what any) {
		wait := longestBackOff
		if n := runs[before.Container]; n < 6 {
			wait = min(wait, 10*time.Second<<n)
		}
		if !before.Ended.IsZero() && before.Ended.After(from) && until.Sub(before.Ended) > wait+restartSlack {
			v.want(next.Sub(before.Ended) <= wait+restartSlack, "%v: %v after its end, the next is %v", before, next.Sub(before.Ended), what)
		}
	}
	for _, i := range tr.of(uid) {
		if !strings.HasPrefix(i.Container, "c") || tr.pods[uid].hooked && i.Container != "c0" {
			continue
		}
		if before := last[i.Container]; before != nil {
			judge(before, i.Started, i)
		}
		last[i.Container] = i
		runs[i.Container]++
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		judge(last[name], tr.end, "none")
	}
}
