package main

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/podworkers"
)

// checkPromises holds podsync to its own word where the kubelet's way is another
// one, once the pods rest after a step.
func (r *workersRun) checkPromises(step int) {
	for _, uid := range slices.Sorted(maps.Keys(r.lives)) {
		if promise := r.brokenFor(uid, r.lives[uid]); promise != "" {
			r.broken = append(r.broken, row{fmt.Sprintf("%s in steps[%d]", uid, step), "", promise})
		}
	}
}

// brokenFor returns a promise that is broken for a pod, "" if there is none.
func (r *workersRun) brokenFor(uid types.UID, l *life) string {
	switch {
	case l.lengthened:
		return "W3: its time to stop got longer"
	case (l.synced || l.inRuntime) && !l.stopped && r.set.State(uid).Terminated:
		return "W6: taken to be stopped, and was not"
	case l.beside:
		return "M1: started while another pod with its name runs"
	case l.static && r.waits(uid) && !r.others(uid, r.hasName):
		return "M1: waits although no other pod has its name"
	}
	return ""
}

// others reports whether there is another static pod that is so.
func (r *workersRun) others(uid types.UID, is func(types.UID, *life) bool) bool {
	for other, l := range r.lives {
		if other != uid && l.static && is(other, l) {
			return true
		}
	}
	return false
}

// onNode reports whether something of a static pod may run.
func (r *workersRun) onNode(uid types.UID, l *life) bool {
	return (l.synced || l.inRuntime) && !r.set.State(uid).Terminated
}

// hasName reports whether a static pod keeps its name from others: until it has
// finished.
func (r *workersRun) hasName(uid types.UID, l *life) bool {
	return (l.synced || l.inRuntime) && !r.set.State(uid).ShouldBeFinished
}

// checkAnswers checks that each request to stop a pod is answered once, unless
// the pod has not stopped yet.
func (r *workersRun) checkAnswers(c *record.Workers) (rows []row) {
	for i := range c.Steps {
		do := &c.Steps[i].Do
		if do.Kill == nil {
			continue
		}
		got, want := r.answers[podworkers.StopID(i+1)], 1
		if got == 0 && r.running(do.UID) {
			want = 0
		}
		if got != want {
			rows = append(rows, row{fmt.Sprintf("W9: answers to steps[%d]", i), fmt.Sprint(want), fmt.Sprint(got)})
		}
	}
	return rows
}
