package podworkers

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// FuzzSet drives a Set with a script in the bytes. It checks the promises of the package after every step, and at the
// end that no work is left.
func FuzzSet(f *testing.F) {
	f.Add([]byte{0, 0, 1, 7, 2, 9, 0, 4, 4, 1})
	f.Add([]byte("a static pod, another one of its name, and a kill"))
	f.Fuzz(func(t *testing.T, script []byte) { newFuzzed(script).run(t) })
}

func TestRandomRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		script := make([]byte, 200)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		newFuzzed(script).run(t)
	}
}

// fuzzed is an owner of a Set that only does what the effects request, with the history of the pods.
type fuzzed struct {
	script []byte
	set    Set
	now    time.Time

	lent   []lent
	nextID StopID
	asked  map[StopID]int // the number of answers to each stop
	ready  []types.UID    // pods with work, according to the effects
	failed []types.UID    // pods to retry, according to the effects
	busy   map[types.UID]Work
	lives  map[types.UID]*life
}

// lent is a pod that was passed to the Set, with a copy from that time.
type lent struct{ given, was *v1.Pod }

// life is the history of one pod since it was last forgotten.
type life struct {
	stage    WorkType
	synced   bool
	grace    int64
	deadline time.Time
}

func newFuzzed(script []byte) *fuzzed {
	return &fuzzed{
		script: script, now: now,
		asked: map[StopID]int{}, busy: map[types.UID]Work{}, lives: map[types.UID]*life{},
	}
}

// pick takes the next number below n from the script.
func (z *fuzzed) pick(n int) int {
	if len(z.script) == 0 {
		return 0
	}
	b := z.script[0]
	z.script = z.script[1:]
	return int(b) % n
}

var uids = []types.UID{"a", "b", "c", "d"}

func (z *fuzzed) run(t *testing.T) {
	for len(z.script) > 0 {
		z.now = z.now.Add(time.Duration(z.pick(4)) * time.Second)
		switch z.pick(8) {
		case 0, 1, 2:
			z.update(t)
		case 3, 4:
			z.start(t)
		case 5, 6:
			z.finish(t, Outcome(z.pick(3)))
		case 7:
			z.other(t)
		}
		z.check(t)
	}
	z.rest(t)
}

func (z *fuzzed) update(t *testing.T) {
	uid := uids[z.pick(len(uids))]
	u := Update{Type: UpdateType(z.pick(4)), Pod: z.pod(uid)}
	switch runtimePod := (&RuntimePod{UID: uid, Name: u.Pod.Name, Namespace: u.Pod.Namespace}); z.pick(6) {
	case 0:
		u.Pod, u.RuntimePod = nil, runtimePod
	case 1:
		u.RuntimePod = runtimePod
	}
	if z.pick(3) > 0 {
		u.Status = &runtime.PodStatus{}
	}
	if z.pick(2) == 0 {
		z.nextID++
		z.asked[z.nextID] = 0
		u.Stop = &StopRequest{ID: z.nextID, Evict: z.pick(2) == 0, GracePeriodSeconds: z.seconds()}
	}
	e, err := z.set.Update(z.now, u)
	if err != nil {
		t.Fatal(err)
	}
	z.follow(t, uid, e)
}

// pod creates a pod; a, b and c are static pods with one name.
func (z *fuzzed) pod(uid types.UID) *v1.Pod {
	p := pod(uid)
	if uid != "d" {
		p = static(uid)
	}
	if z.pick(5) == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: z.now}
		p.DeletionGracePeriodSeconds = z.seconds()
	}
	p.Spec.TerminationGracePeriodSeconds = z.seconds()
	p.Status.Phase = []v1.PodPhase{v1.PodRunning, v1.PodRunning, v1.PodRunning, v1.PodFailed}[z.pick(4)]
	z.lent = append(z.lent, lent{p, p.DeepCopy()})
	return p
}

func (z *fuzzed) seconds() *int64 {
	if z.pick(2) == 0 {
		return nil
	}
	return ptr(int64(z.pick(40)))
}

// start begins the work of one ready pod.
func (z *fuzzed) start(t *testing.T) {
	if len(z.ready) == 0 {
		return
	}
	i := z.pick(len(z.ready))
	uid := z.ready[i]
	z.ready = append(z.ready[:i:i], z.ready[i+1:]...)
	w, ok, e := z.set.Next(z.now, uid)
	if ok {
		z.begin(t, w)
	}
	z.follow(t, uid, e)
}

func (z *fuzzed) begin(t *testing.T, w Work) {
	if _, twice := z.busy[w.UID]; twice {
		t.Fatalf("%s: two works in flight", w.UID)
	}
	z.busy[w.UID] = w
	l := z.lives[w.UID]
	if l == nil {
		l = &life{}
		z.lives[w.UID] = l
	}
	if z.set.pods[w.UID].phase >= Terminated && w.Type == SyncTerminatingRuntimePod {
		return // a sweep, beside the pod's phase
	}
	if w.Type < l.stage && !(w.Type == SyncTerminatingPod && l.stage == SyncTerminatingRuntimePod) {
		t.Fatalf("%s: %v after %v", w.UID, w.Type, l.stage)
	}
	l.stage = w.Type
	if w.Type == RemovePod {
		if (w.Pod == nil) == (w.RuntimePod == nil) || w.Removal == NotRemoved || !z.set.State(w.UID).ShouldBeFinished {
			t.Fatalf("%s: %+v while it is %+v", w.UID, w, z.set.State(w.UID))
		}
		return
	}
	if w.Pod == nil && w.Type != SyncTerminatingRuntimePod || w.Pod != nil && w.Type == SyncTerminatingRuntimePod {
		t.Fatalf("%s: %v with pod %v", w.UID, w.Type, w.Pod)
	}
	if w.Type == SyncTerminatingPod {
		z.checkGrace(t, w, l)
	}
	if w.Type == SyncPod && w.UID != "d" && !l.synced {
		z.checkTurn(t, w)
	}
	l.synced = l.synced || w.Type == SyncPod
}

// checkTurn checks that no other static pod with the name runs when one starts, except orphaned containers.
func (z *fuzzed) checkTurn(t *testing.T, w Work) {
	for _, other := range uids {
		l := z.lives[other]
		p, known := z.set.pods[other]
		if other != w.UID && other != "d" && l != nil && l.stage <= SyncTerminatingPod && known && p.phase < Terminated {
			t.Fatalf("static pod %s runs while %s does", w.UID, other)
		}
	}
}

func (z *fuzzed) checkGrace(t *testing.T, w Work, l *life) {
	if w.GracePeriodSeconds == nil {
		if l.grace != 0 {
			t.Fatalf("%s: no grace period after one of %ds", w.UID, l.grace)
		}
		return
	}
	grace := *w.GracePeriodSeconds
	if grace < 1 || l.grace != 0 && grace > l.grace || !l.deadline.IsZero() && w.Deadline.After(l.deadline) {
		t.Fatalf("%s: %ds until %v after %ds until %v", w.UID, grace, w.Deadline, l.grace, l.deadline)
	}
	l.grace, l.deadline = grace, w.Deadline
}

// finish ends the work of one busy pod.
func (z *fuzzed) finish(t *testing.T, o Outcome) {
	for _, uid := range uids {
		w, ok := z.busy[uid]
		if !ok || z.pick(2) == 0 && len(z.script) > 0 {
			continue
		}
		delete(z.busy, uid)
		before := z.set.pods[uid]
		z.follow(t, uid, z.set.Done(w, o))
		if z.set.pods[uid] != before {
			delete(z.lives, uid)
		}
		return
	}
}

func (z *fuzzed) other(t *testing.T) {
	switch z.pick(5) {
	case 4:
		uid := uids[z.pick(len(uids))]
		z.follow(t, uid, z.set.RemoveOrphan(RuntimePod{UID: uid, Name: string(uid), Namespace: "ns"}))
	case 3:
		p := z.pod(uids[z.pick(len(uids))])
		z.follow(t, p.UID, z.set.KillRuntimePod(z.now, RuntimePod{UID: p.UID, Name: p.Name, Namespace: p.Namespace}))
	case 0:
		var desired []types.UID
		for _, uid := range uids {
			if z.pick(2) == 0 {
				desired = append(desired, uid)
			}
		}
		z.known(t, desired)
	case 1:
		for _, uid := range z.failed {
			z.follow(t, uid, z.set.Requeue(uid))
		}
		z.failed = nil
	case 2:
		for _, uid := range uids {
			if w, ok := z.busy[uid]; ok {
				delete(z.busy, uid)
				z.follow(t, uid, z.set.Abandon(w))
				z.follow(t, uid, z.set.Done(w, Succeeded))
				return
			}
		}
	}
}

func (z *fuzzed) known(t *testing.T, desired []types.UID) {
	known, orphaned := z.set.SyncKnownPods(desired)
	for _, k := range orphaned {
		z.follow(t, k.UID, k.Effects)
	}
	for _, k := range known {
		z.follow(t, k.UID, k.Effects)
	}
}

func (z *fuzzed) follow(t *testing.T, uid types.UID, e Effects) {
	if e.Work {
		z.ready = append(z.ready, uid)
	}
	if e.Retry {
		z.failed = append(z.failed, uid)
	}
	z.ready = append(z.ready, e.Successors...)
	for _, id := range e.Stopped {
		if z.asked[id]++; z.asked[id] > 1 {
			t.Fatalf("request %d answered twice", id)
		}
	}
	if e.Interrupt {
		if _, ok := z.busy[uid]; !ok {
			t.Fatalf("%s: interrupt without work in flight", uid)
		}
	}
}

func (z *fuzzed) check(t *testing.T) {
	for _, uid := range uids {
		if z.set.State(uid).Terminated && (z.set.State(uid).MayHaveRunningContainers || !z.set.State(uid).TerminationRequested) {
			t.Fatalf("%s: the answers contradict each other", uid)
		}
		if z.set.State(uid).ShouldBeFinished && z.set.State(uid).MayHaveRunningContainers {
			t.Fatalf("%s: finished, and may have running containers", uid)
		}
	}
}

// rest removes all sources, and does only the work that the effects report until every pod has finished. Then no pod may be
// left, and every request must have an answer.
func (z *fuzzed) rest(t *testing.T) {
	for range 50 {
		for len(z.ready) > 0 || len(z.busy) > 0 {
			z.start(t)
			z.finish(t, Succeeded)
		}
		for _, uid := range z.failed {
			z.follow(t, uid, z.set.Requeue(uid))
		}
		z.failed = nil
		if len(z.ready) == 0 {
			z.known(t, nil)
		}
		if len(z.set.pods) == 0 && len(z.ready) == 0 {
			break
		}
	}
	if left := fmt.Sprint(z.set.pods, z.set.statics); left != fmt.Sprint(map[types.UID]*state{}, statics{}) {
		t.Fatalf("left at the end: %s", left)
	}
	for id, times := range z.asked {
		if times != 1 {
			t.Fatalf("request %d was answered %d times", id, times)
		}
	}
	for _, l := range z.lent {
		if !reflect.DeepEqual(l.given, l.was) {
			t.Fatalf("%s was written to", l.was.UID)
		}
	}
}
