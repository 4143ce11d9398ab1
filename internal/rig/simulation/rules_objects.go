package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// restartSlack is how late a container may restart after the longest back-off: what an agent waits for a source, and a start.
const longestBackOff, restartSlack = 5 * time.Minute, 30 * time.Second

// restartsInTheDark checks that containers whose inputs have not changed restart on time while the source of their objects is
// unavailable.
func (tr *trace) restartsInTheDark(v *verdict) {
	if tr.dark.IsZero() {
		return
	}
	for _, uid := range tr.uids() {
		known := tr.pods[uid]
		if !known.needs || known.kind.outcome != restarts || known.kind.name == "stuck" || !known.removed.IsZero() || tr.asked(uid) {
			continue
		}
		last := map[string]*instance{}
		for _, i := range tr.of(uid) {
			if before := last[i.Container]; before != nil && before.Ended.After(tr.dark) {
				v.want(i.Started.Sub(before.Ended) <= longestBackOff+restartSlack, "%v came %v after %v", i, i.Started.Sub(before.Ended), before)
			}
			if strings.HasPrefix(i.Container, "c") { // init containers run once in a sandbox, ephemeral ones once
				last[i.Container] = i
			}
		}
		for _, name := range slices.Sorted(maps.Keys(last)) {
			i := last[name]
			v.want(i.Ended.IsZero() || tr.end.Sub(i.Ended) <= longestBackOff+restartSlack, "%v was not restarted", i)
		}
	}
}

// nothingStays checks that nothing of removed pods is on the node. It leaves out the pods whose record no agent could write: the
// next agent takes a directory that no record names for that of another agent.
func (tr *trace) nothingStays(v *verdict) {
	for _, uid := range tr.uids() {
		if known := tr.pods[uid]; !known.removed.IsZero() && !tr.unrecorded[uid] {
			v.want(len(tr.left[uid]) == 0, "%s: left are %s", uid, strings.Join(tr.left[uid], ", "))
		}
	}
}

// pin is a mount for the start of a container, pinsStuck the trouble that it cannot be unmounted.
const pin, pinsStuck = "a mount for a start", "unmounting after starts"

// pinsEnd checks that mounts for starts end with them. It leaves out lives in which a start, or the unmounting after it, may have no
// known end: the mounts then stay until the next start, or the removal of the pod.
func (tr *trace) pinsEnd(v *verdict) {
	if !tr.quiet("calls go wrong", "restart runtime", "restart agent", "restart both", pinsStuck) {
		return
	}
	for _, uid := range tr.uids() {
		if known := tr.pods[uid]; known.pod.Annotations[annotationMounts] != "" && known.removed.IsZero() && known.kind.outcome != never {
			v.want(!slices.Contains(tr.left[uid], pin), "%s: left is %s", uid, pin)
		}
	}
}
