package main

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/podworkers"
)

// call is a call in the words of a record, its grace period apart, and the time that
// podsync keeps to in it if the kubelet may not.
type call struct {
	text         string
	grace, bound int64
}

func (c call) String() string {
	if c.grace == 0 {
		return c.text
	}
	return fmt.Sprintf("%s within %ds", c.text, c.grace)
}

func callOf(w podworkers.Work, o podworkers.Outcome) call {
	c := record.WorkersCall{Method: w.Type.String(), GracePeriodSeconds: w.GracePeriodSeconds, Result: "ok"}
	if w.Type == podworkers.SyncPod {
		c.Type = w.UpdateType.String()
	}
	switch {
	case o == podworkers.Failed:
		c.Result = "error"
	case o == podworkers.SucceededTerminal && w.Type == podworkers.SyncPod:
		c.Result = "terminal"
	}
	return recordedCall(c)
}

func recordedCall(c record.WorkersCall) call {
	text := c.Method + ": " + c.Result
	if c.Type != "" {
		text = c.Type + " " + text
	}
	if c.GracePeriodSeconds != nil {
		return call{text: text, grace: *c.GracePeriodSeconds}
	}
	return call{text: text}
}

// compareKill compares whether a request was answered. The kubelet answers no request for a runtime pod, unless the
// pod has a definition and has stopped.
func (r *workersRun) compareKill(id podworkers.StopID, do *record.WorkersDo, want bool) row {
	got := slices.Contains(r.stopped, id)
	stop := func(c call) bool { return c.text == "SyncTerminatingPod: ok" }
	if got && !want && do.RuntimeOnly && !slices.ContainsFunc(r.calls[do.UID], stop) {
		r.deviations[answeredKill] = true
		got = want
	}
	return row{"killCompleted", fmt.Sprint(want), fmt.Sprint(got)}
}

// running reports whether the Set knows the pod and takes it to be on the node.
func (r *workersRun) running(uid types.UID) bool {
	return r.set.State(uid).TerminationRequested && !r.set.State(uid).Terminated
}

func (r *workersRun) compareCalls(want *record.WorkersWant) (rows []row) {
	wanted := map[types.UID][]call{}
	for _, c := range want.Calls {
		wanted[c.UID] = append(wanted[c.UID], recordedCall(c))
	}
	for _, uid := range keys(wanted, r.calls) {
		r.explainGrace(wanted[uid], r.calls[uid])
		rows = append(rows, row{"calls " + string(uid), fmt.Sprint(wanted[uid]), fmt.Sprint(r.calls[uid])})
	}
	return rows
}

// explainGrace takes over grace periods that the kubelet raised above the time that
// podsync keeps to, where that is the time podsync gave.
func (r *workersRun) explainGrace(wanted, got []call) {
	for i := range min(len(wanted), len(got)) {
		if bound := got[i].bound; bound > 0 && got[i].grace == bound && wanted[i].grace > bound {
			r.deviations[graceNotRaised] = true
			got[i].grace = wanted[i].grace
		}
	}
}

// recordedKnown converts the Set's state of a pod to the form of a record.
func (r *workersRun) recordedKnown(k podworkers.KnownPod) record.WorkersKnown {
	state := k.Phase.String()
	switch k.Phase {
	case podworkers.Syncing:
		state = "sync"
	case podworkers.Finished:
		state = "terminated"
	}
	known := record.WorkersKnown{State: state, Orphan: k.Orphan, HasConfig: k.HasPod, Static: k.Static}
	if r.lives[k.UID].skipped {
		known.HasConfig, known.Static = false, false
	}
	return known
}

func (r *workersRun) comparePredicates(want *record.WorkersWant) (rows []row) {
	for _, uid := range slices.Sorted(maps.Keys(want.Predicates)) {
		answers, known := map[string]bool{}, predicates(r.set.State(uid))
		for name := range want.Predicates[uid] {
			if answer, ok := known[name]; ok {
				answers[name] = answer
			}
			if l := r.lives[uid]; name == "shouldContainersBeTerminating" && l != nil && l.skipped {
				answers[name] = l.stopping
			}
		}
		for _, name := range keys(want.Predicates[uid], answers) {
			rows = append(rows, row{name + " " + string(uid), inMap(want.Predicates[uid], name), inMap(answers, name)})
		}
	}
	return rows
}

// predicates are the answers that a state holds, by the names that the recording has.
func predicates(s podworkers.PodState) map[string]bool {
	return map[string]bool{
		"knownTerminated":               s.Terminated,
		"couldHaveRunningContainers":    s.MayHaveRunningContainers,
		"shouldBeFinished":              s.ShouldBeFinished,
		"terminationRequested":          s.TerminationRequested,
		"shouldContainersBeTerminating": s.ContainersShouldBeTerminating,
		"shouldRuntimeBeRemoved":        s.RuntimeShouldBeRemoved,
		"shouldContentBeRemoved":        s.ContentShouldBeRemoved,
	}
}

// inMap prints the value of a key, "" if there is none.
func inMap[K comparable, V any](m map[K]V, k K) string {
	v, ok := m[k]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%+v", v)
}
