package simulation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// act does something to the node.
func (w *world) act() {
	acts := []func(){w.add, w.add, w.add, w.remove, w.remove, w.mark, w.change, w.exit, w.prune, w.restartRuntime, w.restartAgent}
	acts[w.rng.IntN(len(acts))]()
}

func (w *world) add() {
	count := 0
	for _, pods := range w.wanted {
		count += len(pods)
	}
	if count >= maxPods {
		return
	}
	source, kind := sources[w.rng.IntN(len(sources))], w.rng.IntN(len(kinds))
	p := newPod(w.made, kind, source)
	w.made++
	w.say("add %s to %s", p.UID, source)
	w.trace.pods[p.UID] = &podSpan{kind: kinds[kind].name, source: source, pod: p, grace: 5}
	w.wanted[source][p.UID] = p
	w.tell(source)
}

// pick returns a pod that is wanted and not marked, nil if there is none.
func (w *world) pick(from ...string) *v1.Pod {
	var uids []types.UID
	for _, source := range from {
		for uid := range w.wanted[source] {
			if w.trace.pods[uid].marked.IsZero() {
				uids = append(uids, uid)
			}
		}
	}
	if len(uids) == 0 {
		return nil
	}
	slices.Sort(uids)
	uid := uids[w.rng.IntN(len(uids))]
	return w.wanted[w.trace.pods[uid].source][uid]
}

func (w *world) remove() {
	if p := w.pick(sources...); p != nil {
		w.drop(p.UID)
	}
}

func (w *world) drop(uid types.UID) {
	known := w.trace.pods[uid]
	w.say("remove %s", uid)
	known.removed = time.Now()
	delete(w.wanted[known.source], uid)
	w.tell(known.source)
}

// mark has a pod of the API deleted, with a grace period that may be shorter than
// its own.
func (w *world) mark() {
	p := w.pick(runtime.ConfigSourceAPI)
	if p == nil {
		return
	}
	known := w.trace.pods[p.UID]
	p, known.grace, known.marked = p.DeepCopy(), int64(1+w.rng.IntN(5)), time.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &known.grace
	w.say("delete %s in %d s", p.UID, known.grace)
	w.wanted[known.source][p.UID] = p
	w.tell(known.source)
}

func (w *world) change() {
	p := w.pick(sources...)
	if p == nil {
		return
	}
	source := w.trace.pods[p.UID].source
	p = p.DeepCopy()
	p.Spec.Containers[0].Image = image(p, p.Spec.Containers[0].Name, 1+w.rng.IntN(3))
	w.say("change %s to %s", p.UID, p.Spec.Containers[0].Image)
	w.trace.pods[p.UID].changed = true
	w.wanted[source][p.UID] = p
	w.tell(source)
}

// exit ends a container's process.
func (w *world) exit() {
	if p := w.some(func(p critest.Process) bool { return p.Ended.IsZero() }); p != nil {
		w.say("exit %s %s %d", p.PodUID, p.Container, p.Attempt)
		_ = w.rt.ExitContainer(p.ContainerID, critest.Exit{Code: 9}) // it may just have ended
	}
}

// prune removes a dead container behind the agent's back.
func (w *world) prune() {
	if p := w.some(func(p critest.Process) bool {
		return !p.Ended.IsZero() && w.rt.EditContainer(p.ContainerID, func(*runtimeapi.ContainerStatus) {}) == nil
	}); p != nil {
		w.say("prune %s %s %d", p.PodUID, p.Container, p.Attempt)
		_ = w.rt.Remove(p.ContainerID) // it may be gone
	}
}

// some returns one of the containers that have run, nil if there is none.
func (w *world) some(is func(critest.Process) bool) *critest.Process {
	all := slices.DeleteFunc(w.rt.Processes(), func(p critest.Process) bool { return !is(p) })
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b critest.Process) int {
		return cmp.Or(strings.Compare(a.PodUID, b.PodUID), strings.Compare(a.Container, b.Container), cmp.Compare(a.Attempt, b.Attempt))
	})
	return &all[w.rng.IntN(len(all))]
}

func (w *world) restartRuntime() {
	r := critest.Restart{Down: w.upTo(30 * time.Second), Disconnect: w.rng.IntN(2) == 0}
	fates := [][2]critest.Fate{
		{critest.Kept, critest.Kept}, {critest.Lost, critest.Lost}, {critest.Lost, critest.Kept},
		{critest.Gone, critest.Gone}, {critest.Kept, critest.Doubted}, {critest.Lost, critest.Doubted},
	}
	fate := fates[w.rng.IntN(len(fates))]
	r.Sandboxes, r.Containers = fate[0], fate[1]
	w.say("runtime restarts: %+v", r)
	w.trace.away = append(w.trace.away, span{time.Now(), time.Now().Add(r.Down)})
	w.check(w.rt.Restart(r))
}

func (w *world) restartAgent() {
	w.stop(w.rng.IntN(2) == 0)
	for range w.rng.IntN(3) {
		w.actAlone()
		w.sleep(w.upTo(5 * time.Second))
	}
	w.start()
}

// actAlone does something while there is no agent.
func (w *world) actAlone() {
	acts := []func(){w.remove, w.mark, w.exit, w.restartRuntime, w.add}
	acts[w.rng.IntN(len(acts))]()
}
