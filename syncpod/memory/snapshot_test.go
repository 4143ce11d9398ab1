package memory

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime"
)

// full is a record with all fields.
func full() Record {
	ended, began := at("4", 2, exited), runtime.ContainerStatus{Name: "b", ID: runtime.ContainerID{ID: "5"}, Attempt: 1, State: running, StartedAt: now}
	ended.StartedAt, ended.FinishedAt, ended.ExitCode = now, now.Add(time.Second), 42
	return Record{
		Deadline: now, NextAttempts: map[string]uint32{"app": 3, "b": 7}, EverStarted: []string{"app", "b", "e"},
		Exited: []runtime.ContainerStatus{ended}, Started: []runtime.ContainerStatus{began},
		PostStartPending: []string{"1", "2"}, StartRequested: []string{"2"}, PreStopCompleted: []string{"3"},
		Resources:     map[string]runtime.ContainerResources{"1": {CPULimit: 9}, "2": {CPULimit: 1}},
		CrashBackOffs: map[string]CrashBackOff{"app": {Definition: "d", Failures: 3, ID: runtime.ContainerID{Type: "critest", ID: "4"}, FinishedAt: now, CountedAt: now}},
	}
}

// K7: a restored record is recorded again unchanged.
func TestK7_RecordThere(t *testing.T) {
	if again := snapshotOf(full()).Record(); !reflect.DeepEqual(again, full()) {
		t.Errorf("%+v, want %+v", again, full())
	}
	if again := snapshotOf(Record{}).Record(); !reflect.DeepEqual(again, Record{}) {
		t.Errorf("%+v, want nothing", again)
	}
	p := New(&Limits{})
	p.Restore(full())
	s, news := p.Snapshot()
	if news || !reflect.DeepEqual(s.Record(), full()) {
		t.Errorf("news %v, %+v, want %+v", news, s.Record(), full())
	}
	if !p.Loaded() || !p.Instances.Marked("3", PreStopRun) || !p.Instances.Marked("3", PreStopCompleted) || p.Instances.Marked("1", StartRequested) {
		t.Errorf("marks %b, %b", p.Instances.get("3").marks, p.Instances.get("1").marks)
	}
}

// K7: of a record that has several instances of a container, the newest counts.
func TestK7_NewestOfTheRecord(t *testing.T) {
	for _, started := range []uint32{1, 3} {
		r := snapshotOf(Record{Exited: []runtime.ContainerStatus{at("x", 2, exited)}, Started: []runtime.ContainerStatus{at("s", started, running)}}).Record()
		if got := len(r.Exited); (got == 1) != (started == 1) || len(r.Started) == got {
			t.Errorf("exited %v, started %v", r.Exited, r.Started)
		}
	}
}

// K7: a record that is loaded late does not replace newer facts.
func TestK7_LateRestore(t *testing.T) {
	p := New(&Limits{})
	p.Hasten(now.Add(-time.Hour))
	p.Observe(statusOf(at("3", 1, exited)))
	p.Containers.Used("app", 8)
	p.Containers.SetEverStarted("c", true)
	p.Containers.Used("b", 1)
	p.Instances.Mark("1", StopSignalled)
	p.Instances.SetResources("9", runtime.ContainerResources{CPULimit: 1})
	p.Restore(full())
	s, news := p.Snapshot()
	r := s.Record()
	if !news || !r.Deadline.Equal(now.Add(-time.Hour)) || r.NextAttempts["app"] != 9 || r.NextAttempts["b"] != 7 || len(r.EverStarted) != 4 || len(r.Resources) != 3 || len(r.Exited) != 1 || r.Exited[0].ID.ID != "4" {
		t.Errorf("news %v, %+v", news, r)
	}
	if !p.Instances.Marked("1", StopSignalled) || !p.Instances.Marked("1", PostStartPending) || p.Instances.get("9").resources.CPULimit != 1 {
		t.Errorf("%+v", p.Instances.get("1"))
	}
	for name, noted := range map[string]func(*Pod){
		"that a container was started": func(p *Pod) { p.Containers.SetEverStarted("d", true) },
		"resources not recorded":       func(p *Pod) { p.Instances.SetResources("3", runtime.ContainerResources{CPULimit: 5}) },
		"newer resources":              func(p *Pod) { p.Instances.SetResources("1", runtime.ContainerResources{CPULimit: 5}) },
	} {
		q, late := New(&Limits{}), full()
		late.NextAttempts["d"] = 1
		noted(&q)
		want := q.Instances.get("1").resources
		if q.Restore(late); q.Containers.EverStarted("d") != (name == "that a container was started") || want != nil && *q.Instances.get("1").resources != *want {
			t.Errorf("%s: replaced by the record: %+v", name, q.Containers.get("d"))
		}
		if got := q.Instances.get("3").resources; (got != nil) != (name == "resources not recorded") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	q := New(&Limits{})
	q.Hasten(now.Add(time.Hour))
	if q.Restore(full()); !q.Deadline().Equal(now) {
		t.Errorf("deadline %v, want the recorded one, which is earlier", q.Deadline())
	}
}

// A snapshot differs from the last one if, and only if, a recorded fact has changed.
func TestNews(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Pod)
		want   bool
	}{
		"nothing":                     {func(*Pod) {}, false},
		"the deadline":                {func(p *Pod) { p.Hasten(now.Add(-1)) }, true},
		"a later deadline":            {func(p *Pod) { p.Hasten(now.Add(1)) }, false},
		"an attempt":                  {func(p *Pod) { p.Containers.Used("app", 9) }, true},
		"an old attempt":              {func(p *Pod) { p.Containers.Used("app", 1) }, false},
		"another container":           {func(p *Pod) { p.Containers.Used("z", 0) }, true},
		"a refused name":              {func(p *Pod) { p.Containers.NameReserved("z", 9) }, false},
		"that one was started":        {func(p *Pod) { p.Containers.SetEverStarted("z", true) }, true},
		"an end":                      {func(p *Pod) { p.Observe(statusOf(at("6", 3, exited))) }, true},
		"a start that was asked for":  {func(p *Pod) { p.Instances.Mark("9", StartRequested) }, true},
		"a start, and another's end":  {func(p *Pod) { p.Instances.Mark("9", StartRequested); p.Instances.Unmark("2", StartRequested) }, true},
		"a start of a known instance": {func(p *Pod) { p.Instances.Mark("1", StartRequested) }, true},
		"the answer to a start":       {func(p *Pod) { p.Instances.Unmark("2", StartRequested) }, false},
		"a handler that is to run":    {func(p *Pod) { p.Instances.Mark("9", PostStartPending) }, true},
		"a handler that has run":      {func(p *Pod) { p.Instances.Unmark("1", PostStartPending) }, true},
		"a preStop handler's end":     {func(p *Pod) { p.Instances.Mark("9", PreStopCompleted) }, true},
		"a preStop handler's begin":   {func(p *Pod) { p.Instances.Mark("9", PreStopRun) }, false},
		"a signal":                    {func(p *Pod) { p.Instances.Mark("9", StopSignalled) }, false},
		"a message":                   {func(p *Pod) { p.Instances.SetMessage("9", "bye") }, false},
		"resources":                   {func(p *Pod) { p.Instances.SetResources("1", runtime.ContainerResources{CPULimit: 8}) }, true},
		"the same resources":          {func(p *Pod) { p.Instances.SetResources("1", runtime.ContainerResources{CPULimit: 9}) }, false},
		"the first of an instance":    {func(p *Pod) { p.Instances.SetResources("3", runtime.ContainerResources{}) }, true},
		"the message of an end": {func(p *Pod) {
			p.Containers.of("app").keep(&runtime.ContainerStatus{Name: "app", ID: p.Containers.get("app").current.ID, Attempt: 2, State: exited, Message: "bye"})
		}, true},
		"resources of another":         {func(p *Pod) { p.Instances.SetResources("2", runtime.ContainerResources{}) }, true},
		"a crash":                      {func(p *Pod) { p.Crashes.Crashed(app(), end("9", now), now) }, true},
		"that the record is another's": {func(p *Pod) { p.Outdate() }, true},
		"what was saved":               {func(p *Pod) { p.Containers.Used("app", 9); s, _ := p.Snapshot(); p.Saved(s) }, false},
		"the outdated record replaced": {func(p *Pod) { p.Outdate(); s, _ := p.Snapshot(); p.Saved(s) }, false},
		"a pod that is forgotten":      {func(p *Pod) { p.Containers.Used("app", 9); p.Close() }, false},
	} {
		p := New(&Limits{})
		p.Restore(full())
		tc.change(&p)
		if _, news := p.Snapshot(); news != tc.want {
			t.Errorf("%s: news %v, want %v", name, news, tc.want)
		}
	}
	p := New(&Limits{})
	if p.Outdate(); !p.Loaded() {
		t.Error("the record of an earlier pod is to be loaded")
	}
}

// That one of several requested starts was answered is not worth a write either. What else has
// changed is.
func TestAnswersAreNoNews(t *testing.T) {
	p := New(&Limits{})
	r := full()
	r.StartRequested = []string{"1", "2"}
	p.Restore(r)
	p.Instances.Unmark("2", StartRequested)
	if _, news := p.Snapshot(); news {
		t.Error("the answer to one of two starts is news")
	}
	q := New(&Limits{})
	q.Restore(Record{StartRequested: []string{"1"}, Resources: map[string]runtime.ContainerResources{"1": {CPULimit: 1}}})
	q.Instances.Unmark("1", StartRequested)
	q.Instances.SetResources("1", runtime.ContainerResources{CPULimit: 2})
	if _, news := q.Snapshot(); !news {
		t.Error("an answer hides that the resources are others")
	}
}

// A record is written in version 1, and all versions are read. One without a version is an error.
func TestRecordJSON(t *testing.T) {
	text, err := json.Marshal(full())
	var again Record
	if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, full()) || !strings.HasPrefix(string(text), `{"version":1,`) {
		t.Errorf("%s, %v, became %+v", text, err, again)
	}
	if text, err := json.Marshal(Record{}); string(text) != `{"version":1}` || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	for text, want := range map[string]*Record{
		`{"version":1}`:                     {},
		`{"version":7,"everStarted":["a"]}`: {EverStarted: []string{"a"}},
		`{}`:                                nil, `{"version":0}`: nil, `[]`: nil, `{"version":"1"}`: nil, `{"version":1,"everStarted":7}`: nil, `{"version":1`: nil,
	} {
		got := Record{EverStarted: []string{"before"}}
		err := got.UnmarshalJSON([]byte(text))
		if (err == nil) != (want != nil) || want != nil && !reflect.DeepEqual(got, *want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		if want == nil && len(got.EverStarted) != 1 {
			t.Errorf("%s: an error, and it became %+v", text, got)
		}
	}
}
