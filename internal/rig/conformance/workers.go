package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
)

// The ways in which podsync's workers decide otherwise on purpose.
const (
	// promptSuccessor: a static pod starts as soon as the one with its full name
	// has ended. The kubelet lets it wait for a timer, and no time passes in a
	// record (kubernetes #104743).
	promptSuccessor = "static pod starts when its predecessor has ended"
	// newPlace: a static pod that was forgotten has lost its place in the queue. The kubelet keeps the place of its UID, so
	// a pod that is added again starts before pods that were added earlier. This matters only
	// if the kubelet makes the first pod of the queue wait.
	newPlace = "M1: a static pod that is added again is last in the queue"
	// answeredKill: a request to stop a pod as the runtime knows it is answered when
	// the pod has stopped. The kubelet never answers it (kubernetes #118679).
	answeredKill = "W9: a stop request from the runtime's side is answered"
	// graceNotRaised: the time a pod was given to stop, a deletion grace period of
	// zero included, is not made longer by a later request. The kubelet takes zero
	// for none, and forgets the pod's own time when it was SyncPod that ended the
	// pod (kubernetes #83916).
	graceNotRaised = "W3: a longer request does not raise the time a pod was given"
	// runtimePodStops: a static pod that was never synced, but of which the runtime
	// has containers, is stopped before it is finished. The kubelet reports it
	// as finished at once, even if containers run, and does not keep its definition
	// (kubernetes #139833).
	runtimePodStops = "W6: a static pod that the runtime has is stopped before it is finished"
)

func checkWorkers(line []byte) (outcome, error) {
	var c record.Workers
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("not a recorded workers case: %w", err)
	}
	return judgeWorkers(&c)
}

// judgeWorkers runs a recorded case with podsync's rules. If the result differs from the record, it runs the case
// again with the kubelet's rules in place of the deliberate deviations, to check
// that nothing else differs. With its own rules, podsync must keep its promises,
// regardless of the kubelet's decisions.
func judgeWorkers(c *record.Workers) (outcome, error) {
	o := outcome{name: c.Name}
	own := newWorkersRun(nil)
	diff, err := own.run(c)
	if err != nil {
		return o, fmt.Errorf("workers case %s: %w", c.Name, err)
	}
	if broken := sideBySide(own.broken); broken != "" {
		o.diff = diff + broken
		return o, nil
	}
	if diff == "" {
		o.deviation = own.deviation()
		return o, nil
	}
	for _, ways := range kubeletWays() {
		r := newWorkersRun(ways)
		if other, err := r.run(c); err == nil && other == "" {
			o.deviation = r.deviation()
			return o, nil
		}
	}
	o.diff = diff // no rule explains the difference: show it without the kubelet's ways
	return o, nil
}

// kubeletWays returns sets of rules in which podsync imitates the kubelet, the smallest sets first.
func kubeletWays() [][]string {
	return [][]string{
		{promptSuccessor}, {runtimePodStops}, {promptSuccessor, runtimePodStops},
		{promptSuccessor, newPlace}, {promptSuccessor, newPlace, runtimePodStops},
	}
}

// workersRun drives a Set through a recorded case.
type workersRun struct {
	set podworkers.Set
	// ways are the rules for which the kubelet's way is taken instead of podsync's.
	ways []string
	// deviations are the rules that have applied.
	deviations map[string]bool
	// lives are the pods that the Set knows.
	lives map[types.UID]*life
	// line is the kubelet's queue of static pods.
	line []types.UID
	// answers counts the answers to each request.
	answers map[podworkers.StopID]int
	// broken are promises that were not kept.
	broken []row

	// Of the step at hand:

	results []podworkers.Outcome
	calls   map[types.UID][]call
	stopped []podworkers.StopID
}

func newWorkersRun(ways []string) *workersRun {
	return &workersRun{ways: ways, deviations: map[string]bool{}, lives: map[types.UID]*life{}, answers: map[podworkers.StopID]int{}}
}

func (r *workersRun) hasWay(rule string) bool { return slices.Contains(r.ways, rule) }

// kubeletWay reports whether the kubelet's behaviour replaces a rule. If so, it records the rule as a
// deviation.
func (r *workersRun) kubeletWay(rule string) bool {
	if !r.hasWay(rule) {
		return false
	}
	r.deviations[rule] = true
	return true
}

// deviation returns the rules that have applied.
func (r *workersRun) deviation() string {
	return strings.Join(slices.Sorted(maps.Keys(r.deviations)), "; ")
}

// run returns the difference in the first step that differs. It then continues with podsync's own rules, to check the
// promises.
func (r *workersRun) run(c *record.Workers) (diff string, err error) {
	for i := range c.Steps {
		s := &c.Steps[i]
		rows, err := r.step(podworkers.StopID(i+1), &s.Do, &s.Want)
		if err != nil {
			return "", fmt.Errorf("steps[%d]: %w", i, err)
		}
		if differs := sideBySide(rows); differs != "" && diff == "" {
			diff = fmt.Sprintf("  in steps[%d]:\n%s", i, differs)
		}
		if diff != "" && len(r.ways) > 0 {
			return diff, nil
		}
		r.checkPromises(i)
	}
	r.broken = append(r.broken, r.checkAnswers(c)...)
	return diff, nil
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

// noTime is every step's time: none passes in a record.
var noTime = time.Unix(1700000000, 0)

func (r *workersRun) update(id podworkers.StopID, do *record.WorkersDo) error {
	u, err := do.Update(id)
	if err != nil {
		return err
	}
	ignored := u.Pod == nil && u.Type != podworkers.Kill
	again := u.Type == podworkers.Create && r.set.State(do.UID).TerminationRequested
	r.setApart(&u)
	e, err := r.set.Update(noTime, u)
	if err != nil {
		return err
	}
	if !ignored && !again {
		l := r.life(do.UID, u)
		l.take(u, r.running(do.UID))
	}
	r.follow(do.UID, e)
	return nil
}

func (r *workersRun) known(do *record.WorkersDo, want *record.WorkersWant) (rows []row) {
	known, orphaned := r.set.SyncKnownPods(do.Desired)
	for _, k := range orphaned {
		delete(r.lives, k.UID)
	}
	got := map[types.UID]record.WorkersKnown{}
	for _, k := range known {
		got[k.UID] = r.recordedKnown(k)
	}
	for _, uid := range keys(want.Known, got) {
		rows = append(rows, row{"known " + string(uid), inMap(want.Known, uid), inMap(got, uid)})
	}
	for _, k := range slices.Concat(known, orphaned) {
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
	if r.hasWay(newPlace) && !r.hasTurn(uid) {
		return
	}
	w, ok, e := r.set.Next(noTime, uid)
	r.follow(uid, e)
	if !ok {
		return
	}
	if w.Type == podworkers.RemovePod { // which is no matter of a kubelet's pod workers
		// A kubelet forgets a pod that was created during the stop of the old one. Its housekeeping creates the pod again,
		// as a step of the record.
		_, _ = r.set.Update(noTime, podworkers.Update{Type: podworkers.Kill, Pod: w.Pod, RuntimePod: w.RuntimePod})
		r.follow(uid, r.set.Done(w, podworkers.Succeeded))
		return
	}
	l := r.lives[uid]
	if r.skips(l, w) {
		l.skipped = true
		r.follow(uid, r.set.Done(w, podworkers.Succeeded))
		return
	}
	result := podworkers.Succeeded
	if len(r.results) > 0 {
		result, r.results = r.results[0], r.results[1:]
	}
	r.note(l, w, result)
	if w.Type == podworkers.SyncTerminatingRuntimePod && result != podworkers.Failed {
		delete(r.lives, uid) // the Set has forgotten it with that
	}
	r.follow(uid, r.set.Done(w, result))
}

// note takes down a call.
func (r *workersRun) note(l *life, w podworkers.Work, result podworkers.Outcome) {
	made := callOf(w, result)
	made.bound = l.bound
	r.calls[w.UID] = append(r.calls[w.UID], made)
	if l.static && !l.synced && w.Type == podworkers.SyncPod {
		l.beside = r.others(w.UID, r.onNode)
	}
	l.worked(w, result)
}

// skips reports whether the kubelet would not make this call, because the static pod has never
// reached the head of the queue.
func (r *workersRun) skips(l *life, w podworkers.Work) bool {
	return runtime.IsStatic(w.Pod) && !l.synced && w.Type != podworkers.SyncPod && r.kubeletWay(runtimePodStops)
}
