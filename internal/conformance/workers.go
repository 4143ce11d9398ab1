package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/conformance/record"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
)

// The ways in which podsync's workers decide otherwise on purpose.
const (
	// promptSuccessor: a static pod starts as soon as the one with its full name
	// has ended. The kubelet lets it wait for a timer, and no time passes in a
	// record (kubernetes #104743).
	promptSuccessor = "static pod starts when its predecessor has ended"
	// answeredKill: a request to stop a pod as the runtime knows it is answered when
	// the pod has stopped. The kubelet never answers it (kubernetes #118679).
	answeredKill = "W9: a stop request from the runtime's side is answered"
	// graceNotRaised: the time a pod was given to stop, a deletion grace period of
	// zero included, is not made longer by a later request. The kubelet takes zero
	// for none, and forgets the pod's own time when it was SyncPod that ended the
	// pod (kubernetes #83916).
	graceNotRaised = "W3: a longer request does not raise the time a pod was given"
	// runtimePodStops: a static pod that never had its turn, and of which the
	// runtime has something, is stopped before it is finished. The kubelet takes it
	// for finished at once, whatever runs (kubernetes #139833).
	runtimePodStops = "W6: a static pod that the runtime has is stopped before it is finished"
)

// checkWorkers runs a recorded case the way podsync does it, and if that differs
// again with the kubelet's ways in what podsync does otherwise on purpose, to see
// that nothing else differs.
func checkWorkers(line []byte) (outcome, error) {
	var c record.Workers
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("not a recorded workers case: %w", err)
	}
	o := outcome{name: c.Name}
	for _, ways := range [][]string{{}, {promptSuccessor}, {runtimePodStops}, {promptSuccessor, runtimePodStops}} {
		r := newWorkersRun(ways)
		diff, err := r.run(&c)
		if err != nil {
			return o, fmt.Errorf("workers case %s: %w", c.Name, err)
		}
		if diff == "" {
			o.deviation, o.diff = strings.Join(slices.Sorted(maps.Keys(r.deviations)), "; "), ""
			return o, nil
		}
		if len(ways) == 0 {
			o.diff = diff // podsync's own way is the one to show
		}
	}
	return o, nil
}

// workersRun drives a Set through a recorded case.
type workersRun struct {
	set podworkers.Set
	// ways are the rules for which the kubelet's way is taken instead of podsync's.
	ways []string
	// deviations are the rules that came into play.
	deviations map[string]bool
	// bounded are the pods whose time to stop podsync may know to be shorter than
	// the kubelet does.
	bounded map[types.UID]bool
	// synced are the pods that had a SyncPod, stopping those that had a call that
	// stops them, skipped those whose calls were not made in the kubelet's way.
	synced, stopping, skipped map[types.UID]bool
	// answers counts the answers to each request.
	answers map[podworkers.StopID]int

	// Of the step at hand:

	results []podworkers.Outcome
	calls   map[types.UID][]call
	stopped []podworkers.StopID
}

func newWorkersRun(ways []string) *workersRun {
	none := func() map[types.UID]bool { return map[types.UID]bool{} }
	return &workersRun{
		ways: ways, deviations: map[string]bool{}, answers: map[podworkers.StopID]int{},
		bounded: none(), synced: none(), stopping: none(), skipped: none(),
	}
}

// kubeletWay reports whether the kubelet's way is to be taken in what the rule is
// about, which is noted as a deviation then.
func (r *workersRun) kubeletWay(rule string) bool {
	if !slices.Contains(r.ways, rule) {
		return false
	}
	r.deviations[rule] = true
	return true
}

func (r *workersRun) run(c *record.Workers) (diff string, err error) {
	for i := range c.Steps {
		s := &c.Steps[i]
		rows, err := r.step(podworkers.StopID(i+1), &s.Do, &s.Want)
		if err != nil {
			return "", fmt.Errorf("steps[%d]: %w", i, err)
		}
		if diff := sideBySide(rows); diff != "" {
			return fmt.Sprintf("  in steps[%d]:\n%s", i, diff), nil
		}
	}
	return sideBySide(r.compareAnswers(c)), nil
}

// compareAnswers holds podsync to its own word where the kubelet gives none: a
// request to stop a pod is answered once, unless the pod is still to stop.
func (r *workersRun) compareAnswers(c *record.Workers) (rows []row) {
	for i := range c.Steps {
		do := &c.Steps[i].Do
		if do.Kill == nil {
			continue
		}
		got, want := r.answers[podworkers.StopID(i+1)], 1
		if got == 0 && r.running(do.UID) {
			want = 0
		}
		rows = append(rows, row{fmt.Sprintf("answers to steps[%d]", i), fmt.Sprint(want), fmt.Sprint(got)})
	}
	return rows
}

func (r *workersRun) step(id podworkers.StopID, do *record.WorkersDo, want *record.WorkersWant) (rows []row, err error) {
	r.calls, r.stopped = map[types.UID][]call{}, nil
	if r.results, err = do.Outcomes(); err != nil {
		return nil, err
	}
	isKnown, err := do.IsKnown()
	if err != nil {
		return nil, err
	}
	if isKnown {
		rows = r.known(do, want)
	} else if err := r.update(id, do); err != nil {
		return nil, err
	}
	rows = append(rows, r.compareCalls(want)...)
	if want.KillCompleted != nil {
		rows = append(rows, r.compareKill(id, do, *want.KillCompleted))
	}
	return append(rows, r.comparePredicates(want)...), nil
}

func (r *workersRun) compareKill(id podworkers.StopID, do *record.WorkersDo, want bool) row {
	got := slices.Contains(r.stopped, id)
	if got && !want && do.RuntimeOnly && !r.running(do.UID) {
		r.deviations[answeredKill] = true
		got = want
	}
	return row{"killCompleted", fmt.Sprint(want), fmt.Sprint(got)}
}

// running reports whether the Set knows the pod and takes it to be on the node.
func (r *workersRun) running(uid types.UID) bool {
	return r.set.TerminationRequested(uid) && !r.set.Terminated(uid)
}

// noTime is the time of every step: none passes in a record.
var noTime = time.Unix(1700000000, 0)

func (r *workersRun) update(id podworkers.StopID, do *record.WorkersDo) error {
	u, err := do.Update(id)
	if err != nil {
		return err
	}
	if u.Pod != nil && u.Stop != nil && u.Stop.GracePeriodSeconds != nil {
		given := u.Pod.DeletionGracePeriodSeconds
		r.bounded[do.UID] = r.bounded[do.UID] || given != nil && *given == 0
	}
	e, err := r.set.Update(noTime, u)
	if err != nil {
		return err
	}
	r.follow(do.UID, e)
	return nil
}

func (r *workersRun) known(do *record.WorkersDo, want *record.WorkersWant) (rows []row) {
	known, forgotten := r.set.Known(do.Desired)
	got := map[types.UID]record.WorkersKnown{}
	for _, k := range known {
		state := k.Phase.String()
		switch k.Phase {
		case podworkers.Syncing:
			state = "sync"
		case podworkers.Finished:
			state = "terminated"
		}
		got[k.UID] = record.WorkersKnown{State: state, Orphan: k.Orphan, HasConfig: k.HasPod, Static: k.Static}
	}
	for _, uid := range keys(want.Known, got) {
		rows = append(rows, row{"known " + string(uid), inMap(want.Known, uid), inMap(got, uid)})
	}
	for _, k := range slices.Concat(known, forgotten) {
		r.follow(k.UID, k.Effects)
	}
	return rows
}

// follow does what effects ask for, until the pod rests.
func (r *workersRun) follow(uid types.UID, e podworkers.Effects) {
	r.stopped = append(r.stopped, e.Stopped...)
	for _, id := range e.Stopped {
		r.answers[id]++
	}
	for _, successor := range e.Successors {
		if !r.kubeletWay(promptSuccessor) {
			r.work(successor)
		}
	}
	if e.Work {
		r.work(uid)
	}
}

func (r *workersRun) work(uid types.UID) {
	w, ok, e := r.set.Next(noTime, uid)
	r.follow(uid, e)
	if !ok {
		return
	}
	if r.skips(w) {
		r.follow(uid, r.set.Done(w, podworkers.Succeeded))
		return
	}
	result := podworkers.Succeeded
	if len(r.results) > 0 {
		result, r.results = r.results[0], r.results[1:]
	}
	r.calls[uid] = append(r.calls[uid], callOf(w, result))
	switch {
	case w.Type != podworkers.SyncPod:
		r.stopping[uid] = true
	case result == podworkers.SucceededTerminal:
		r.synced[uid], r.bounded[uid] = true, true
	default:
		r.synced[uid] = true
	}
	r.follow(uid, r.set.Done(w, result))
}

// skips reports whether the kubelet would not make this call: for a static pod
// that never had its turn.
func (r *workersRun) skips(w podworkers.Work) bool {
	if w.Pod == nil || w.Pod.Annotations[runtime.AnnotationConfigSource] == "" || r.synced[w.UID] || w.Type == podworkers.SyncPod {
		return false
	}
	if !r.kubeletWay(runtimePodStops) {
		return false
	}
	r.skipped[w.UID] = true
	return true
}

// call is a call in the words of a record, its grace period apart.
type call struct {
	text  string
	grace int64
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
		return call{text, *c.GracePeriodSeconds}
	}
	return call{text: text}
}

func (r *workersRun) compareCalls(want *record.WorkersWant) (rows []row) {
	wanted := map[types.UID][]call{}
	for _, c := range want.Calls {
		wanted[c.UID] = append(wanted[c.UID], recordedCall(c))
	}
	for _, uid := range keys(wanted, r.calls) {
		if r.bounded[uid] {
			r.allowShorter(wanted[uid], r.calls[uid])
		}
		rows = append(rows, row{"calls " + string(uid), fmt.Sprint(wanted[uid]), fmt.Sprint(r.calls[uid])})
	}
	return rows
}

// allowShorter takes over the grace periods that the kubelet raised.
func (r *workersRun) allowShorter(wanted, got []call) {
	for i := range min(len(wanted), len(got)) {
		if got[i].grace > 0 && got[i].grace < wanted[i].grace {
			r.deviations[graceNotRaised] = true
			got[i].grace = wanted[i].grace
		}
	}
}

func (r *workersRun) comparePredicates(want *record.WorkersWant) (rows []row) {
	asked := map[string]func(types.UID) bool{
		"knownTerminated":               r.set.Terminated,
		"couldHaveRunningContainers":    r.set.MayHaveRunningContainers,
		"shouldBeFinished":              r.set.ShouldBeFinished,
		"terminationRequested":          r.set.TerminationRequested,
		"shouldContainersBeTerminating": r.set.ContainersShouldBeTerminating,
		"shouldRuntimeBeRemoved":        r.set.RuntimeShouldBeRemoved,
		"shouldContentBeRemoved":        r.set.ContentShouldBeRemoved,
	}
	for _, uid := range slices.Sorted(maps.Keys(want.Predicates)) {
		answers := map[string]bool{}
		for name := range want.Predicates[uid] {
			if ask, ok := asked[name]; ok {
				answers[name] = ask(uid)
			}
			if name == "shouldContainersBeTerminating" && r.skipped[uid] && answers[name] {
				answers[name] = r.stopping[uid] || !r.set.TerminationRequested(uid)
			}
		}
		for _, name := range keys(want.Predicates[uid], answers) {
			rows = append(rows, row{name + " " + string(uid), inMap(want.Predicates[uid], name), inMap(answers, name)})
		}
	}
	return rows
}

// inMap prints the value of a key, "" if there is none.
func inMap[K comparable, V any](m map[K]V, k K) string {
	v, ok := m[k]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%+v", v)
}
