package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A rule explains its own deviation and no other one: in a record that deviates,
// every other fact is noticed when it is wrong.
func TestARuleExplainsNothingElse(t *testing.T) {
	deviate, facts := map[string]int{}, 0
	for _, file := range []string{"testdata/workers.jsonl.gz", "testdata/workers.rare.jsonl.gz"} {
		for _, line := range recorded(t, file) {
			var c record.Workers
			must.Do(t, json.Unmarshal([]byte(line), &c))
			right := must.Get(judgeWorkers(&c))(t)
			if deviate[right.deviation]++; right.deviation == "" || deviate[right.deviation] > 1 {
				continue // one of each will do
			}
			eachWrongFact(&c, right.deviation, func(what string) {
				facts++
				if o, err := judgeWorkers(&c); err != nil || o.diff == "" {
					t.Errorf("%s: %s is not noticed (error %v)", o.name, what, err)
				}
			})
			if again, err := judgeWorkers(&c); err != nil || again != right {
				t.Fatalf("%s: the record is not what it was", c.Name)
			}
		}
	}
	if len(deviate) < 8 || facts < 2000 {
		t.Errorf("%d wrong facts of records with the deviations %v, want more", facts, deviate)
	}
}

// eachWrongFact makes one fact of a record wrong at a time. What the rule of a
// deviation is about is left out: that the kubelet did not answer, how much longer a
// time it gave, and that it let a pod pass others.
func eachWrongFact(c *record.Workers, deviation string, judge func(what string)) {
	for i := range c.Steps {
		wrong := func(what string) { judge(fmt.Sprintf("%s in steps[%d]", what, i)) }
		want := &c.Steps[i].Want
		wrongAnswers(want, wrong)
		wrongCalls(want, deviation, wrong)
		if want.KillCompleted != nil && *want.KillCompleted {
			*want.KillCompleted = false
			wrong("killCompleted")
			*want.KillCompleted = true
		}
	}
}

func wrongAnswers(want *record.WorkersWant, wrong func(string)) {
	for uid, answers := range want.Predicates {
		for _, name := range slices.Collect(maps.Keys(answers)) {
			answers[name] = !answers[name]
			wrong(fmt.Sprintf("%s of %s", name, uid))
			answers[name] = !answers[name]
		}
	}
	for _, uid := range slices.Collect(maps.Keys(want.Known)) {
		was := want.Known[uid]
		for _, other := range []record.WorkersKnown{
			{State: was.State + "?", Orphan: was.Orphan, HasConfig: was.HasConfig, Static: was.Static},
			{State: was.State, Orphan: !was.Orphan, HasConfig: was.HasConfig, Static: was.Static},
			{State: was.State, Orphan: was.Orphan, HasConfig: !was.HasConfig, Static: was.Static},
			{State: was.State, Orphan: was.Orphan, HasConfig: was.HasConfig, Static: !was.Static},
		} {
			want.Known[uid] = other
			wrong(fmt.Sprintf("known %s %v", uid, other))
		}
		want.Known[uid] = was
	}
}

func wrongCalls(want *record.WorkersWant, deviation string, wrong func(string)) {
	calls := want.Calls
	for i, was := range calls {
		change := func(what string, to func(*record.WorkersCall)) {
			want.Calls = slices.Clone(calls)
			to(&want.Calls[i])
			wrong(fmt.Sprintf("%s of call %d", what, i))
		}
		change("result", func(c *record.WorkersCall) {
			c.Result = map[bool]string{true: "error", false: "ok"}[was.Result == "ok"]
		})
		change("method", func(c *record.WorkersCall) { c.Method += "?" })
		if was.GracePeriodSeconds != nil {
			change("no time", func(c *record.WorkersCall) { c.GracePeriodSeconds = nil })
		}
		if was.GracePeriodSeconds != nil && !strings.Contains(deviation, graceNotRaised) {
			less := *was.GracePeriodSeconds - 1
			change("less time", func(c *record.WorkersCall) { c.GracePeriodSeconds = &less })
		}
		if was.Method != "SyncPod" || !strings.Contains(deviation, newPlace) {
			want.Calls = slices.Delete(slices.Clone(calls), i, i+1)
			wrong(fmt.Sprintf("lack of call %d", i))
		}
	}
	if len(calls) > 0 {
		want.Calls = append(slices.Clone(calls), calls[len(calls)-1])
		wrong("call too many")
	}
	want.Calls = calls
}

// A broken promise is reported, even if no record mentions it.
func TestPromisesAreHeld(t *testing.T) {
	waiting := (&record.WorkersDo{Type: "create", UID: "a", Pod: &record.WorkersPod{Static: true}})
	over := (&record.WorkersDo{Type: "create", UID: "a", Pod: &record.WorkersPod{Static: true, Phase: v1.PodFailed}})
	for promise, c := range map[string]struct {
		do *record.WorkersDo
		is life
	}{
		"W3":                {waiting, life{lengthened: true}},
		"W6":                {over, life{inRuntime: true}},
		"M1: started while": {waiting, life{static: true, synced: true, beside: true}},
		"M1: waits":         {waiting, life{static: true}},
	} {
		r := newWorkersRun(nil)
		u := must.Get(c.do.Update(0))(t)
		must.Get(r.set.Update(noTime, u))(t)
		r.lives["a"] = &c.is
		r.checkPromises(0)
		if len(r.broken) != 1 || !strings.HasPrefix(r.broken[0].got, promise) {
			t.Errorf("broken: %v, want %s", r.broken, promise)
		}
	}
}

func TestW9_AnswersAreCounted(t *testing.T) {
	const line = `{"steps":[{"do":{"op":"update","uid":"a","type":"kill","runtimeOnly":true,"kill":{}}}]}`
	var c record.Workers
	must.Do(t, json.Unmarshal([]byte(line), &c))
	for _, times := range []int{0, 1, 2} {
		r := newWorkersRun(nil)
		r.answers[1] = times
		if rows := r.checkAnswers(&c); (len(rows) == 0) != (times == 1) {
			t.Errorf("answered %d times: %v", times, rows)
		}
	}
}

func TestLifeNotesALongerTime(t *testing.T) {
	five, six, eight := int64(5), int64(6), int64(8)
	for name, told := range map[string][]*int64{
		"more than before": {nil, &five, &five, &six}, "more than it keeps to": {&eight}, "none after one": {&six, nil},
	} {
		l := &life{bound: 7}
		for i, grace := range told {
			if l.notified(grace); l.lengthened != (i == len(told)-1) {
				t.Errorf("%s: lengthened is %v after %d, want true only after the last", name, l.lengthened, i)
			}
		}
	}
}
