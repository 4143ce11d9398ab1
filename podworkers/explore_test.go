package podworkers

import (
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// exploreHere is how long states are explored unless PODSYNC_EXPLORE sets it.
const exploreHere = 3 * time.Second

// TestEveryInterleaving explores the lives of two pods, breadth first: every order of updates, of successes and
// failures of work, of reports of the runtime and of lists of known pods. Both pods are static with the same name, or
// one of them is static, or none. States that differ only in the numbers of work and requests count as one. The test
// checks the promises of the package in each state, and that each state leads to an end without faults in which no pod
// is left.
func TestEveryInterleaving(t *testing.T) {
	limit := exploreHere
	if s := os.Getenv("PODSYNC_EXPLORE"); s != "" {
		var err error
		if limit, err = time.ParseDuration(s); err != nil {
			t.Fatalf("PODSYNC_EXPLORE: %v", err)
		}
	}
	for name, statics := range map[string]int{"twins": 2, "static and other": 1, "others": 0} {
		t.Run(name, func(t *testing.T) {
			x := newExplorer(statics)
			depth := x.explore(t, limit/3)
			t.Logf("%d states, %d transitions, all up to %d events", len(x.seen), x.transitions, depth)
		})
	}
}

// An explorer records the states that it has reached. It stores a state as the events that lead to it, so that the fields
// of a Set can change without a change here.
type explorer struct {
	pods        []types.UID
	events      []exploredEvent
	seed        maphash.Seed
	seen        map[[2]uint64]struct{}
	transitions int
}

// exploredEvent is one event. It returns false if the event is impossible in a state.
type exploredEvent struct {
	name string
	do   func(*explored) bool
}

// path is the way to a state: the last event, and the path before it, nil for the first state.
type path struct {
	before *path
	event  *exploredEvent
}

func (p *path) events() (all []*exploredEvent) {
	for ; p != nil; p = p.before {
		all = append(all, p.event)
	}
	slices.Reverse(all)
	return all
}

// explore returns the number of events up to which all states were reached.
func (x *explorer) explore(t *testing.T, limit time.Duration) (depth int) {
	frontier, end := []*path{nil}, time.Now().Add(limit)
	for len(frontier) > 0 {
		var next []*path
		for _, p := range frontier {
			if time.Now().After(end) {
				return depth
			}
			next = x.expand(t, p, next)
		}
		depth, frontier = depth+1, next
	}
	return depth
}

// expand adds the new states that follow from a state.
func (x *explorer) expand(t *testing.T, p *path, next []*path) []*path {
	for i := range x.events {
		e := x.replay(t, p)
		follows := &path{p, &x.events[i]}
		if !x.events[i].do(e) {
			continue
		}
		x.transitions++
		e.check(follows)
		key := x.key(e)
		if _, seen := x.seen[key]; seen {
			continue
		}
		x.seen[key] = struct{}{}
		next = append(next, follows)
		e.rest(follows)
	}
	return next
}

func (x *explorer) replay(t *testing.T, p *path) *explored {
	e := &explored{
		t: t, pods: x.pods, open: map[StopID]int{}, busy: map[types.UID]Work{}, late: map[types.UID]Work{},
		ready: map[types.UID]bool{}, failed: map[types.UID]bool{}, lives: map[types.UID]exploredLife{}, refused: map[types.UID]bool{},
	}
	for _, event := range p.events() {
		event.do(e)
	}
	return e
}

// explored is an owner of a Set that does what the effects request, in any order.
type explored struct {
	t      *testing.T
	pods   []types.UID
	set    Set
	nextID StopID
	open   map[StopID]int // requests that were not answered, by the index of their pod
	// busy is the work in flight of each pod, late the work that was abandoned.
	busy, late    map[types.UID]Work
	ready, failed map[types.UID]bool
	lives         map[types.UID]exploredLife
	// refused are finished pods that no source wanted in the last SyncKnownPods.
	refused map[types.UID]bool
	broken  string
}

// exploredLife is the history of a pod since it was last forgotten.
type exploredLife struct {
	stopped bool  // work was handed out that stops it
	grace   int64 // the least that it was given to stop, in seconds
	begun   bool  // work was handed out that may start it
}

func (e *explored) breaks(format string, args ...any) {
	if e.broken == "" {
		e.broken = fmt.Sprintf(format, args...)
	}
}

func (e *explored) update(u Update, uid types.UID, ask bool) {
	if ask {
		stop := StopRequest{}
		if u.Stop != nil {
			stop = *u.Stop
		}
		e.nextID++
		stop.ID = e.nextID
		u.Stop = &stop
		e.open[stop.ID] = slices.Index(e.pods, uid)
	}
	if u.Pod != nil && u.Type != Kill {
		delete(e.refused, uid)
	}
	effects, err := e.set.Update(now, u)
	if err != nil {
		e.breaks("%v", err)
	}
	e.follow(uid, effects)
}

func (e *explored) follow(uid types.UID, effects Effects) {
	if effects.Work {
		e.ready[uid] = true
	}
	if effects.Retry {
		e.failed[uid] = true
	}
	for _, other := range effects.Successors {
		e.ready[other] = true
	}
	for _, id := range effects.Stopped {
		if _, asked := e.open[id]; !asked {
			e.breaks("W9: request %d of %s is answered twice", id, uid)
		}
		delete(e.open, id)
	}
	if _, busy := e.busy[uid]; effects.Interrupt && !busy {
		e.breaks("%s: interrupt without work in flight", uid)
	}
}

// next starts the work of a pod, if there is any.
func (e *explored) next(uid types.UID) bool {
	if !e.ready[uid] {
		return false
	}
	delete(e.ready, uid)
	w, ok, effects := e.set.Next(now, uid)
	if ok {
		e.begin(w)
	}
	e.follow(uid, effects)
	return true
}

func (e *explored) begin(w Work) {
	if _, twice := e.busy[w.UID]; twice {
		e.breaks("%s: two works in flight", w.UID)
	}
	e.busy[w.UID] = w
	l := e.lives[w.UID]
	switch w.Type {
	case SyncPod:
		if l.stopped {
			e.breaks("W1: %s is synced after it was stopped", w.UID)
		}
		if !l.begun {
			e.checkTurn(w)
		}
		l.begun = true
	case SyncTerminatedPod:
		if !l.stopped && e.set.pods[w.UID].started && l.begun {
			e.breaks("W6: %s is cleaned up after and was not stopped", w.UID)
		}
	case SyncTerminatingPod:
		if w.GracePeriodSeconds != nil {
			if l.grace != 0 && *w.GracePeriodSeconds > l.grace {
				e.breaks("W3: %s has %d s to stop after %d", w.UID, *w.GracePeriodSeconds, l.grace)
			}
			l.grace = *w.GracePeriodSeconds
		}
		if w.Deadline.IsZero() {
			e.breaks("W2: %s has no deadline", w.UID)
		}
		l.stopped = true
	case SyncTerminatingRuntimePod:
		l.stopped = true
		if w.RuntimePod == nil {
			e.breaks("W5: the runtime's pod %s is not named", w.UID)
		}
	case RemovePod:
		if state := e.set.State(w.UID); !state.ShouldBeFinished || state.MayHaveRunningContainers {
			e.breaks("W11: %s is removed while it is %+v", w.UID, state)
		}
		if _, late := e.late[w.UID]; late {
			e.breaks("W11: %s is removed while abandoned work has not returned", w.UID)
		}
	}
	e.lives[w.UID] = l
}

// checkTurn checks that no other static pod with the name may have a running container.
func (e *explored) checkTurn(w Work) {
	if !runtime.IsStatic(w.Pod) {
		return
	}
	for _, other := range e.pods {
		p, known := e.set.pods[other]
		if other != w.UID && known && p.fullName == e.set.pods[w.UID].fullName && e.lives[other].begun && p.phase < Terminated {
			e.breaks("M1: static pod %s begins while %s has not stopped", w.UID, other)
		}
	}
}

// done ends the work of a pod.
func (e *explored) done(uid types.UID, o Outcome) bool {
	w, busy := e.busy[uid]
	if !busy {
		return false
	}
	delete(e.busy, uid)
	e.changes(uid, func() Effects { return e.set.Done(w, o) })
	return true
}

// changes calls a function that may forget a pod. The next life of a forgotten pod is another one.
func (e *explored) changes(uid types.UID, do func() Effects) {
	before := e.set.pods[uid]
	effects := do()
	if e.set.pods[uid] != before {
		delete(e.lives, uid)
	}
	e.follow(uid, effects)
}

// abandon abandons the work in flight. The work returns later.
func (e *explored) abandon(uid types.UID) bool {
	w, busy := e.busy[uid]
	if !busy {
		return false
	}
	if _, twice := e.late[uid]; twice {
		return false // one abandoned call for each pod is enough
	}
	delete(e.busy, uid)
	e.late[uid] = w
	e.follow(uid, e.set.Abandon(w))
	return true
}

// returns ends abandoned work of a pod. The only effect may be that the removal of the pod can begin.
func (e *explored) returns(uid types.UID) bool {
	w, abandoned := e.late[uid]
	if !abandoned {
		return false
	}
	delete(e.late, uid)
	before := e.set.State(uid)
	before.abandoned = 0
	e.follow(uid, e.set.Done(w, SucceededTerminal))
	if after := e.set.State(uid); after != before {
		e.breaks("W2: %s is %+v after the end of abandoned work, it was %+v", uid, after, before)
	}
	return true
}

// orphan requests the removal of a pod that the Set does not know.
func (e *explored) orphan(uid types.UID, p RuntimePod) bool {
	if _, known := e.set.pods[uid]; known {
		return false
	}
	e.follow(uid, e.set.RemoveOrphan(p))
	return true
}

func (e *explored) requeue(uid types.UID) bool {
	if !e.failed[uid] {
		return false
	}
	delete(e.failed, uid)
	e.follow(uid, e.set.Requeue(uid))
	return true
}

func (e *explored) known(desired ...types.UID) bool {
	known, orphaned := e.set.SyncKnownPods(desired)
	clear(e.refused)
	for _, k := range known {
		if k.Orphan && k.Phase == Finished {
			e.refused[k.UID] = true
		}
	}
	for _, k := range slices.Concat(known, orphaned) {
		e.follow(k.UID, k.Effects)
	}
	return true
}

// check checks the promises of the package in a state.
func (e *explored) check(p *path) {
	for id, pod := range e.open {
		if s, known := e.set.pods[e.pods[pod]]; !known || !slices.Contains(s.waiting, id) {
			e.breaks("W9: request %d of %s waits for nothing", id, e.pods[pod])
		}
	}
	for _, uid := range e.pods {
		s, known := e.set.pods[uid]
		state := e.set.State(uid)
		if _, busy := e.busy[uid]; known && s.ready() && !e.ready[uid] && !e.failed[uid] && !busy && !s.isHeldUp(&e.set) {
			e.breaks("W4: %s has work, and no effect reported it", uid)
		}
		if known && s.phase != Syncing && s.phase != Finished && !e.follows(uid) {
			e.breaks("W4: %s is %v, and nothing follows", uid, s.phase)
		}
		if known && e.refused[uid] && s.phase == Finished && s.isFinished() && !e.follows(uid) {
			e.breaks("W11: %s is over, no source wants it, and nothing follows", uid)
		}
		if state.Terminated && (state.MayHaveRunningContainers || !state.TerminationRequested) || state.ShouldBeFinished && state.MayHaveRunningContainers {
			e.breaks("the answers about %s contradict each other: %+v", uid, state)
		}
	}
	e.report(p)
}

// follows reports whether anything is due for a terminating pod.
func (e *explored) follows(uid types.UID) bool {
	_, busy := e.busy[uid]
	_, late := e.late[uid]
	s := e.set.pods[uid]
	return busy || e.failed[uid] || e.ready[uid] || s.pending != nil || late && s.phase > Finished
}

// isHeldUp reports whether a static pod waits for another one with its name. When that one has finished, the effects
// report it.
func (s *state) isHeldUp(set *Set) bool {
	if s.mustStopAgain() || !s.waitsForName() || s.phase != Syncing {
		return false
	}
	running, taken := set.statics.running[s.fullName]
	if taken {
		return running != s.uid
	}
	return set.statics.next(s.fullName, set.mayStart) != s.uid
}

func (e *explored) report(p *path) {
	if e.broken == "" {
		return
	}
	var names []string
	for _, event := range p.events() {
		names = append(names, event.name)
	}
	e.t.Fatalf("%s\nafter %s", e.broken, strings.Join(names, "; "))
}

// rest runs all work after the sources have removed all pods. No pod may be left at the end.
func (e *explored) rest(p *path) {
	for range 20 {
		for len(e.ready)+len(e.busy)+len(e.failed)+len(e.late) > 0 {
			for _, uid := range e.pods {
				e.returns(uid)
				e.next(uid)
				e.done(uid, Succeeded)
				e.requeue(uid)
			}
		}
		e.known()
		if len(e.set.pods) == 0 && len(e.ready) == 0 {
			break
		}
	}
	if len(e.set.pods)+len(e.set.statics.running)+len(e.set.statics.waiting)+len(e.set.statics.stopping) > 0 {
		e.breaks("W11: %d pods are left, and %+v", len(e.set.pods), e.set.statics)
	}
	if len(e.open) > 0 {
		e.breaks("W9: %d requests are never answered", len(e.open))
	}
	e.report(p)
}
