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
	// graceNotRaised: a deletion grace period of zero is the shortest there is. The
	// kubelet takes it for none as soon as another is asked for, and so gives the
	// pod more time than its deletion does (kubernetes #83916).
	graceNotRaised = "W3: a longer request does not raise a deletion grace period of zero"
)

// checkWorkers runs a recorded case the way podsync does it, and if that differs
// once more without waking successors, to see that nothing else differs.
func checkWorkers(line []byte) (outcome, error) {
	var c record.Workers
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("not a recorded workers case: %w", err)
	}
	prompt := newWorkersRun(false)
	diff, err := prompt.run(&c)
	if err != nil {
		return outcome{}, fmt.Errorf("workers case %s: %w", c.Name, err)
	}
	run := prompt
	if diff != "" && prompt.deviations[promptSuccessor] {
		waiting := newWorkersRun(true)
		if again, err := waiting.run(&c); err == nil && again == "" {
			diff, run = "", waiting
			run.deviations[promptSuccessor] = true
		}
	} else {
		delete(run.deviations, promptSuccessor)
	}
	return outcome{
		name:      c.Name,
		deviation: strings.Join(slices.Sorted(maps.Keys(run.deviations)), "; "),
		diff:      diff,
	}, nil
}

// workersRun drives a Set through a recorded case.
type workersRun struct {
	set podworkers.Set
	// successorsWait leaves a static pod asleep when its turn comes.
	successorsWait bool
	// deviations are the rules that came into play.
	deviations map[string]bool
	// zeroed are the pods whose deletion grace period was zero while more was
	// asked for.
	zeroed map[types.UID]bool

	// Of the step at hand:

	results []podworkers.Outcome
	calls   map[types.UID][]call
	stopped []podworkers.StopID
}

func newWorkersRun(successorsWait bool) *workersRun {
	return &workersRun{successorsWait: successorsWait, deviations: map[string]bool{}, zeroed: map[types.UID]bool{}}
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
	return "", nil
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
		r.zeroed[do.UID] = r.zeroed[do.UID] || given != nil && *given == 0 && *u.Stop.GracePeriodSeconds > 0
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
	for _, successor := range e.Successors {
		r.deviations[promptSuccessor] = true
		if !r.successorsWait {
			r.work(successor)
		}
	}
	if e.Work {
		r.work(uid)
	}
}

func (r *workersRun) work(uid types.UID) {
	w, ok, e := r.set.Next(uid)
	r.follow(uid, e)
	if !ok {
		return
	}
	result := podworkers.Succeeded
	if len(r.results) > 0 {
		result, r.results = r.results[0], r.results[1:]
	}
	r.calls[uid] = append(r.calls[uid], callOf(w, result))
	r.follow(uid, r.set.Done(w, result))
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
		if r.zeroed[uid] {
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
