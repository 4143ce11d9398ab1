package podworkers

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func pod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: string(uid), Namespace: "ns"}}
}

func static(uid types.UID) *v1.Pod {
	p := pod(uid)
	p.Name = "static"
	p.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
	return p
}

func ptr[T any](v T) *T { return &v }

// harness drives a Set in tests that spell out each step.
type harness struct {
	t   *testing.T
	set Set
	now time.Time
}

func newHarness(t *testing.T) *harness { return &harness{t: t, now: now} }

func (h *harness) update(u Update) Effects {
	h.t.Helper()
	e, err := h.set.Update(h.now, u)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

func (h *harness) next(uid types.UID, want WorkType) Work {
	h.t.Helper()
	w, ok, _ := h.set.Next(h.now, uid)
	if !ok || w.Type != want {
		h.t.Fatalf("Next(%s) = %v, %v; want %v", uid, w.Type, ok, want)
	}
	return w
}

func (h *harness) do(uid types.UID, want WorkType) Effects {
	h.t.Helper()
	return h.set.Done(h.next(uid, want), Succeeded)
}

func kill(p *v1.Pod, id StopID, grace *int64) Update {
	return Update{Type: Kill, Pod: p, Stop: &StopRequest{ID: id, GracePeriodSeconds: grace}}
}

func TestUnusableUpdates(t *testing.T) {
	var s Set
	for want, u := range map[string]Update{
		"one of Pod and RuntimePod is required": {},
		"pod ns/x has no metadata.uid":          {Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns"}}},
		"runtime pod ns/y has no UID":           {Type: Kill, RuntimePod: &RuntimePod{Name: "y", Namespace: "ns"}},
	} {
		if _, err := s.Update(now, u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if w, ok, _ := s.Next(now, "unknown"); ok {
		t.Errorf("an unknown pod has work %v", w)
	}
	if e := s.Done(Work{UID: "unknown", revision: 1}, Succeeded); e.Work || e.Retry {
		t.Errorf("work of an unknown pod has effects %+v", e)
	}
	if len(s.pods) != 0 {
		t.Error("unusable updates left something behind")
	}
}

// The Set does not modify borrowed values.
func TestUpdatesAreNotWrittenTo(t *testing.T) {
	h := newHarness(t)
	p := pod("a")
	stop := &StopRequest{GracePeriodSeconds: ptr(int64(9))}
	h.update(Update{Type: Kill, Pod: p, Stop: stop})
	h.update(kill(p, 0, ptr(int64(2))))
	h.do("a", SyncTerminatingPod)
	if *stop.GracePeriodSeconds != 9 || stop.ID != 0 {
		t.Errorf("the request became %+v", stop)
	}
}

// The status is requested once, and not kept for the life of the pod.
func TestStatusIsNotKept(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a"), Status: &runtime.PodStatus{}})
	h.do("a", SyncPod)
	if s := h.set.pods["a"]; s.active.Status != nil {
		t.Error("the status is kept")
	}
}

// Returned values share no memory with the Set.
func TestWorkIsItsOwn(t *testing.T) {
	h := newHarness(t)
	h.update(kill(pod("a"), 0, ptr(int64(9))))
	w := h.next("a", SyncTerminatingPod)
	*w.GracePeriodSeconds = 99
	h.set.Done(w, Failed)
	h.set.Requeue("a")
	if w = h.next("a", SyncTerminatingPod); *w.GracePeriodSeconds != 9 {
		t.Errorf("given %ds, want 9s", *w.GracePeriodSeconds)
	}
}

// M1: a static pod that holds its name keeps it, and a pod that does not wait for a name has none.
func TestM1_TheTurnIsKept(t *testing.T) {
	var s statics
	all := func(types.UID) bool { return true }
	if s.start("name", "1", all) {
		t.Error("a pod that is not in line has its turn")
	}
	s.queue("name", "1")
	for range 2 {
		if !s.start("name", "1", all) {
			t.Error("the turn is not kept")
		}
	}
	if s.start("name", "2", all) {
		t.Error("another pod has the turn")
	}
}

var strayA = RuntimePod{UID: "a", Name: "a", Namespace: "ns"}
