package memory

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/runtime"
)

func app() *v1.Container { return &v1.Container{Name: "app", Image: "a:1"} }

// end returns an instance that ended at a time.
func end(id string, finished time.Time) *runtime.ContainerStatus {
	c := at(id, 0, exited)
	c.FinishedAt = finished
	return &c
}

func TestLimits(t *testing.T) {
	if err := (&Limits{}).Check(); err != nil {
		t.Error(err)
	}
	if (&Limits{Initial: time.Hour, Max: time.Second}).Check() == nil {
		t.Error("a first wait beyond the longest is no error")
	}
}

// B2: a step that failed waits, longer each time, until it succeeds or its key is another one.
func TestB2_Failures(t *testing.T) {
	f := NewFailures[string](&Limits{Initial: 10 * time.Second, Max: time.Minute})
	a, b := Key{Container: "a"}, Key{Container: "b"}
	f.Succeeded(a)
	if _, _, wait := f.Held(a, now); wait || !f.IsEmpty() {
		t.Error("it waits before anything has failed")
	}
	if until := f.Failed(a, "first", now); !until.Equal(now.Add(10*time.Second)) || f.IsEmpty() {
		t.Errorf("the first wait ends at %v", until.Sub(now))
	}
	for _, tc := range []struct {
		key     Key
		after   time.Duration
		failure string
		wait    bool
	}{{a, 0, "first", true}, {a, 9 * time.Second, "first", true}, {a, 10 * time.Second, "first", false}, {b, 0, "", false}} {
		failure, until, wait := f.Held(tc.key, now.Add(tc.after))
		if failure != tc.failure || wait != tc.wait || wait && !until.Equal(now.Add(10*time.Second)) {
			t.Errorf("%v after %v: %q, %v, %v", tc.key, tc.after, failure, until, wait)
		}
	}
	f.Failed(b, "other", now)
	second := now.Add(10 * time.Second)
	if until := f.Failed(a, "second", second); !until.Equal(second.Add(20 * time.Second)) {
		t.Errorf("the second wait is %v", until.Sub(second))
	}
	if failure, _, wait := f.Held(a, second); failure != "second" || !wait {
		t.Errorf("%q, %v, want the second failure", failure, wait)
	}
	f.Succeeded(a)
	if failure, _, wait := f.Held(a, second); wait || failure != "" {
		t.Errorf("after a success it waits: %v, for %q", wait, failure)
	}
	if failure, _, wait := f.Held(b, now); failure != "other" || !wait {
		t.Errorf("%q, %v: the success of one key is that of another", failure, wait)
	}
	if until := f.Failed(a, "anew", second); !until.Equal(second.Add(10 * time.Second)) {
		t.Errorf("after a success the wait is %v, want the first", until.Sub(second))
	}
}

// B2: the first failure because the runtime was unavailable is excused, once until a success.
func TestB2_Excuse(t *testing.T) {
	f := NewFailures[string](&Limits{})
	a, b := Key{Container: "a"}, Key{Container: "b"}
	if !f.Excuse(a) || f.Excuse(a) || !f.Excuse(b) {
		t.Error("each key is excused once")
	}
	if f.Succeeded(a); !f.Excuse(a) || f.Excuse(b) {
		t.Error("a success excuses the next failure of its key alone")
	}
}

// B1: each end of a container counts once, the first holds nothing up, and another definition of
// the container has its own count.
func TestB1_Crashes(t *testing.T) {
	b := Crashes{limits: &Limits{Initial: 10 * time.Second, Max: time.Minute}}
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	changed := app()
	changed.Image = "a:2"
	if !b.IsEmpty() {
		t.Error("it is not empty before anything has ended")
	}
	if until, wait := b.Preview(app(), runtime.ContainerID{ID: "1"}, at(0), at(0)); wait || !until.IsZero() || !b.IsEmpty() {
		t.Errorf("preview of a first end: %v, %v", until, wait)
	}
	for i, tc := range []struct {
		c       *v1.Container
		last    *runtime.ContainerStatus
		now     int
		preview int // seconds to wait, 0 for none
		want    int
	}{
		{app(), end("1", at(0)), 0, 0, 0},
		{app(), end("1", at(0)), 1, 0, 0},
		{app(), end("2", at(5)), 5, 10, 10},
		{app(), end("2", at(5)), 9, 6, 6},
		{app(), end("3", at(20)), 20, 20, 20},
		{app(), end("4", at(20)), 21, 40, 40}, // ended in the same instant, by a coarse clock
		{changed, end("5", at(30)), 30, 0, 0},
		{changed, end("6", at(40)), 43, 7, 7}, // observed late: the wait counts from the end
	} {
		until, wait := b.Preview(tc.c, tc.last.ID, tc.last.FinishedAt, at(tc.now))
		if i > 0 && (wait != (tc.preview > 0) || wait && until.Sub(at(tc.now)).Round(time.Second) != time.Duration(tc.preview)*time.Second) {
			t.Errorf("step %d: preview %v, %v, want %d s", i, until.Sub(at(tc.now)), wait, tc.preview)
		}
		until, wait = b.Crashed(tc.c, tc.last, at(tc.now))
		if wait != (tc.want > 0) || wait && until.Sub(at(tc.now)).Round(time.Second) != time.Duration(tc.want)*time.Second {
			t.Errorf("step %d: %v, %v, want %d s", i, until.Sub(at(tc.now)), wait, tc.want)
		}
		if b.IsEmpty() {
			t.Errorf("step %d: it is empty", i)
		}
	}
}

// B1: a back-off that an earlier agent has recorded continues once, for the same definition of the container,
// unless another exit was counted since.
func TestB1_RestoredCrashes(t *testing.T) {
	limits := &Limits{Initial: 10 * time.Second, Max: time.Minute}
	first := Crashes{limits: limits}
	other := &v1.Container{Name: "other", Image: "a:1"}
	first.Crashed(other, end("x", now), now)
	first.Crashed(app(), end("1", now), now)
	first.Crashed(app(), end("2", now.Add(time.Second)), now.Add(time.Second))
	saved := first.save()
	if len(saved) != 2 || saved[0].container != "app" || saved[1].container != "other" || saved[0].Failures != 2 || saved[0].ID.ID != "2" || !saved[0].FinishedAt.Equal(now.Add(time.Second)) || !saved[0].CountedAt.Equal(now.Add(time.Second)) {
		t.Fatalf("%+v", saved)
	}
	resized := app()
	resized.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	third := end("3", now.Add(11*time.Second))
	for name, tc := range map[string]struct {
		c    *v1.Container
		want time.Duration
	}{"the same": {app(), 20 * time.Second}, "resized": {resized, 0}, "nothing is recorded of it": {&v1.Container{Name: "new"}, 0}} {
		b := Crashes{limits: limits}
		b.restore(saved)
		if b.IsEmpty() || len(b.save()) != 2 || !b.save()[0].equal(saved[0]) || !b.save()[1].equal(saved[1]) {
			t.Errorf("%s: what was restored is not kept: %+v", name, b.save())
		}
		ended := *third
		ended.Name = tc.c.Name
		preview, _ := b.Preview(tc.c, ended.ID, ended.FinishedAt, ended.FinishedAt)
		if all := b.save(); name == "the same" && (len(all) != 2 || !all[0].equal(saved[0])) {
			t.Errorf("after a preview %+v is recorded", all)
		}
		until, wait := b.Crashed(tc.c, &ended, ended.FinishedAt)
		if wait != (tc.want > 0) || wait && (until.Sub(ended.FinishedAt) != tc.want || !preview.Equal(until)) {
			t.Errorf("%s: waits %v until %v, preview %v; want %v", name, wait, until.Sub(ended.FinishedAt), preview.Sub(ended.FinishedAt), tc.want)
		}
	}
	again := Crashes{limits: limits}
	again.restore(saved)
	if until, wait := again.Crashed(app(), end("2", now.Add(time.Second)), now.Add(2*time.Second)); !wait || !until.Equal(now.Add(11*time.Second)) {
		t.Errorf("the recorded end counts again: %v, %v", until.Sub(now), wait)
	}
	again.restore(saved)
	third.FinishedAt = now.Add(12 * time.Second)
	again.Crashed(app(), third, third.FinishedAt)
	fourth := end("4", now.Add(40*time.Second))
	again.Crashed(app(), fourth, fourth.FinishedAt)
	again.restore(saved)
	if until, _ := again.Crashed(app(), fourth, fourth.FinishedAt); !until.Equal(fourth.FinishedAt.Add(40 * time.Second)) {
		t.Errorf("a late record replaces what was counted since: %v", until.Sub(fourth.FinishedAt))
	}
	if all := again.save(); len(all) != 2 || all[0].ID.ID != "4" {
		t.Errorf("recorded %+v, want each container once, and app as it ended last", all)
	}
}

// B1: a record whose back-off counts no failure holds nothing up, and is not recorded again.
func TestB1_RestoredWithoutFailures(t *testing.T) {
	b := Crashes{limits: &Limits{}}
	b.restore([]savedCrash{{"app", CrashBackOff{Definition: KeyOf(app()).definition(), ID: runtime.ContainerID{ID: "1"}, FinishedAt: now, CountedAt: now}}})
	if until, wait := b.Crashed(app(), end("1", now), now); wait || len(b.save()) != 0 {
		t.Errorf("it waits: %v, until %v; recorded are %+v", wait, until, b.save())
	}
}

// Two recorded back-offs are equal only if all their fields are.
func TestCrashesEqual(t *testing.T) {
	c := savedCrash{"app", CrashBackOff{"d", 1, runtime.ContainerID{ID: "1"}, now, now}}
	if !c.equal(c) {
		t.Error("it is not equal to itself")
	}
	for name, change := range map[string]func(*savedCrash){
		"container": func(c *savedCrash) { c.container = "b" }, "definition": func(c *savedCrash) { c.Definition = "e" }, "failures": func(c *savedCrash) { c.Failures++ },
		"id": func(c *savedCrash) { c.ID.ID = "2" }, "finished": func(c *savedCrash) { c.FinishedAt = now.Add(1) }, "counted": func(c *savedCrash) { c.CountedAt = now.Add(1) },
	} {
		other := c
		if change(&other); other.equal(c) {
			t.Errorf("another %s makes no difference", name)
		}
	}
	local := c
	if local.FinishedAt = now.In(time.FixedZone("", 3600)); !local.equal(c) {
		t.Error("the zone of a time makes a difference")
	}
}
