package simulation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// act is an action on a node.
type act struct {
	name string
	do   func(*world)
}

// daily are the actions of every life; repeated entries are more frequent.
var daily = []act{{"add", (*world).add}, {"add", (*world).add}, {"add", (*world).add}, {"remove", (*world).remove}, {"mark", (*world).mark}}

// act performs a random action.
func (w *world) act() { w.perform(w.acts[w.rng.IntN(len(w.acts))]) }

func (w *world) perform(a act) {
	w.trace.met[a.name]++
	a.do(w)
}

func (w *world) add() {
	if len(w.wantedPods(sources...)) < maxPods {
		o := w.owners[w.rng.IntN(len(w.owners))]
		source := sources[w.rng.IntN(len(sources))]
		p := newPod(w.made, w.kinds[w.rng.IntN(len(w.kinds))])
		w.want(o, source, p)
		w.briefly(p)
	}
}

// want adds a new pod to a source.
func (w *world) want(o *owner, source string, p *v1.Pod) {
	w.made++
	p.Annotations[runtime.AnnotationConfigSource] = source
	w.say("%s: add %s to %s", o.name, p.UID, source)
	kind, _, _ := strings.Cut(string(p.UID), "-")
	span := &podSpan{kind: kindNamed(kind), owner: o, source: source, pod: p, grace: 5, needs: w.objects.need(p), hooked: w.objects.hook(p)}
	span.needs = w.objects.mount(p) || span.needs
	w.trace.pods[p.UID] = span
	w.refuse(w.trace.pods[p.UID])
	o.wanted[source][p.UID] = p
	w.news(o, source)
}

// refuse makes the runtime reject the calls that a pod of a never-running kind needs.
func (w *world) refuse(known *podSpan) {
	if known.kind.refused == "" {
		return
	}
	refused := faults.Fault{Match: faults.Match{Method: known.kind.refused, PodUID: string(known.pod.UID)}, Times: faults.Always, Err: errRefused}
	if known.kind.refused == critest.PullImage { // which is of an image, not of a pod
		refused.Match = faults.Match{Method: critest.PullImage, Image: known.pod.Spec.Containers[0].Image}
	}
	_, err := w.rt.Inject(refused)
	w.check(err)
}

var errRefused = status.Error(codes.InvalidArgument, "simulation: refused")

// pick returns a random wanted pod that is not marked, nil if there is none.
func (w *world) pick(from ...string) *v1.Pod {
	all := w.wantedPods(from...)
	if len(all) == 0 {
		return nil
	}
	return all[w.rng.IntN(len(all))]
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
	delete(known.owner.wanted[known.source], uid)
	w.news(known.owner, known.source)
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
	hasten := w.often(20)
	if hasten {
		known.grace = 20
	}
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, seconds(known.grace)
	w.say("delete %s in %d s", p.UID, known.grace)
	w.replace(p)
	if hasten {
		w.after(w.upTo(3*time.Second), func() { w.hasten(p.UID) })
	}
}

// hastenedGrace is the shortened grace period of a pod, in seconds.
const hastenedGrace = 1

// hasten gives a pod that is being deleted less time than it has.
func (w *world) hasten(uid types.UID) {
	known := w.trace.pods[uid]
	if !known.removed.IsZero() {
		return
	}
	known.hastened = time.Now()
	p := known.pod.DeepCopy()
	p.DeletionGracePeriodSeconds = seconds(hastenedGrace)
	w.say("delete %s in %d s", uid, hastenedGrace)
	w.replace(p)
}

// replace has the source of a pod say that it is another now.
func (w *world) replace(p *v1.Pod) {
	known := w.trace.pods[p.UID]
	known.pod = p
	known.owner.wanted[known.source][p.UID] = p
	w.news(known.owner, known.source)
}

func (w *world) change() {
	p := w.pick(sources...)
	if p == nil {
		return
	}
	p = p.DeepCopy()
	p.Spec.Containers[0].Image = image(p, p.Spec.Containers[0].Name, 1+w.rng.IntN(3))
	w.say("change %s to %s", p.UID, p.Spec.Containers[0].Image)
	w.trace.pods[p.UID].changed = true
	w.replace(p)
}

// resize changes the resources of a pod's container.
func (w *world) resize() {
	p := w.pick(runtime.ConfigSourceAPI)
	if p == nil {
		return
	}
	p = p.DeepCopy()
	cpu := int64(100 * (1 + w.rng.IntN(5)))
	limit(&p.Spec.Containers[0], cpu)
	w.say("resize %s to %d", p.UID, cpu)
	w.trace.pods[p.UID].cpu = cpu
	w.replace(p)
}

// debug adds an ephemeral container.
func (w *world) debug() {
	p := w.pick(runtime.ConfigSourceAPI)
	if p == nil || len(p.Spec.EphemeralContainers) > 0 {
		return
	}
	p = p.DeepCopy()
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "e0", Image: image(p, "e0", 1), ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sleep", "5"},
	}}}
	w.say("debug %s", p.UID)
	w.replace(p)
}

// supersede has a static pod replaced by another one of its name.
func (w *world) supersede() {
	p := w.pick(sources[0])
	if p == nil {
		return
	}
	known := w.trace.pods[p.UID]
	w.say("remove %s, another one comes", p.UID)
	known.removed = time.Now()
	delete(known.owner.wanted[known.source], p.UID)
	next := newPod(w.made, known.kind)
	next.Name = p.Name
	w.want(known.owner, known.source, next)
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
	if p := w.some(func(p critest.Process) bool { return !p.Ended.IsZero() && w.has(p) }); p != nil {
		w.say("prune %s %s %d", p.PodUID, p.Container, p.Attempt)
		w.trace.pruned[types.UID(p.PodUID)+"/"+types.UID(p.Container)]++
		_ = w.rt.Remove(p.ContainerID) // it may have been removed already
	}
}

func (w *world) has(p critest.Process) bool {
	return w.rt.EditContainer(p.ContainerID, func(*runtimeapi.ContainerStatus) {}) == nil
}

// some returns a random container that has run, nil if there is none.
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

// restartAgent ends an agent and starts the next one. Events continue between the two.
func (w *world) restartAgent() {
	o := w.owners[w.rng.IntN(len(w.owners))]
	w.stop(o, w.often(50))
	for range w.rng.IntN(3) {
		if a := w.acts[w.rng.IntN(len(w.acts))]; a.name != "restart agent" && a.name != "restart both" {
			w.perform(a)
		}
		w.sleep(w.upTo(5 * time.Second))
	}
	w.start(o)
}

// restartBoth restarts the runtime together with an agent, as a reboot does. Then it removes pods while
// the runtime may still be unavailable, most of them by a deletion with a grace period.
func (w *world) restartBoth() {
	w.restartRuntime()
	o := w.owners[w.rng.IntN(len(w.owners))]
	w.stop(o, w.often(50))
	w.start(o)
	for range 1 + w.rng.IntN(3) {
		w.sleep(w.upTo(4 * time.Second))
		a := act{"mark", (*world).mark}
		if w.often(40) {
			a = daily[w.rng.IntN(len(daily))]
		}
		w.perform(a)
	}
}
