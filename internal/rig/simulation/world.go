package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/syncpod/loop"
)

const (
	maxPods = 5
	// rest is how long all is left alone in the end. Back-offs of 5 min fit in.
	rest = 20 * time.Minute
	// patience is how long an agent asks a disk that cannot be read.
	patience = time.Minute - time.Second
	// latency bounds the time that each call and event takes at least.
	latency = 5 * time.Millisecond
)

// world is a node that lives through random times.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	rt    *critest.Runtime
	trace *trace
	// owners share the runtime. The first is always there.
	owners []*owner
	made   int
	kinds  []kind
	// acts are done now and then, last before the node is left in peace.
	acts, last []act
	timers     []timer // in order
	chaos      faults.Random
	// silence bounds how late a source speaks to a new agent.
	silence time.Duration
	// imageTaken is when an image was last removed from the node.
	imageTaken       time.Time
	volumes, reports outage
	objects          objects
}

// timer is an action at a time.
type timer struct {
	at time.Time
	do func()
}

// live plays the life of a seed and returns its trace. It has to be called in a
// bubble.
func live(t testing.TB, seed uint64) *trace {
	rng := rand.New(rand.NewPCG(seed, 1))
	model := []critest.Model{critest.Containerd2, critest.Containerd16, critest.CRIO}[rng.IntN(3)]
	name := map[critest.Model]string{critest.CRIO: "cri-o"}[model]
	rt, _ := critest.Start(t, critest.Config{Like: model, Name: name})
	w := &world{t: t, rng: rng, rt: rt, trace: newTrace(), owners: []*owner{newOwner("podsync")}, silence: 3 * time.Second}
	w.objects.rng, w.objects.mountsImages = rand.New(rand.NewPCG(seed, 2)), model != critest.Containerd16
	w.chaos = faults.Random{Seed: seed, MaxDelay: time.Duration(1+rng.IntN(20)) * time.Second, Latency: latency}
	w.drawKinds()
	w.drawTroubles()
	w.say("model %d, rates %v and %v, delays up to %v", model, w.chaos.Rate, w.chaos.EventRate, w.chaos.MaxDelay)
	w.trace.begin = time.Now()
	for _, o := range w.owners {
		o.disk.blind = func(pod types.UID) { w.trace.loseRecord(pod, false) }
	}
	for _, o := range w.owners {
		w.start(o)
	}
	w.drawOutages()
	w.check(rt.SetRandom(w.chaos))
	for range 15 + rng.IntN(25) {
		w.act()
		w.sleep(w.upTo(8 * time.Second))
	}
	w.settle()
	return w.trace
}

// drawKinds chooses the kinds of pods of a life: few, so that they meet often.
func (w *world) drawKinds() {
	for _, i := range w.rng.Perm(len(kinds))[:3+w.rng.IntN(5)] {
		w.kinds = append(w.kinds, kinds[i])
	}
}

// sleep passes time, and runs due actions.
func (w *world) sleep(d time.Duration) {
	until := time.Now().Add(d)
	for len(w.timers) > 0 && !w.timers[0].at.After(until) {
		next := w.timers[0]
		w.timers = w.timers[1:]
		time.Sleep(time.Until(next.at))
		next.do()
	}
	time.Sleep(time.Until(until))
}

// after has something done in some time, while the world sleeps.
func (w *world) after(d time.Duration, do func()) {
	w.timers = append(w.timers, timer{time.Now().Add(d), do})
	slices.SortStableFunc(w.timers, func(a, b timer) int { return a.at.Compare(b.at) })
}

// upTo is a time that hardly anything else happens at.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// often reports true n times of hundred.
func (w *world) often(n int) bool { return w.rng.IntN(100) < n }

func (w *world) check(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// say records an action on the node.
func (w *world) say(format string, args ...any) {
	w.trace.said = append(w.trace.said, event{time.Now(), fmt.Sprintf(format, args...)})
}

// settle leaves the node undisturbed until it must have converged, and then inspects it.
func (w *world) settle() {
	for _, a := range w.last {
		w.perform(a)
	}
	if w.often(30) { // how long it waits is judged in peace
		w.want(w.owners[0], sources[0], newPod(w.made, kindNamed("crash")))
	}
	w.say("peace")
	w.check(w.rt.SetRandom(faults.Random{Seed: w.chaos.Seed, Latency: latency}))
	w.sleep(2 * time.Minute) // for timers; all failures have ended
	w.darken()
	w.pullSlowly()
	for _, uid := range w.trace.uids() {
		if known := w.trace.pods[uid]; !known.marked.IsZero() && known.removed.IsZero() {
			w.drop(uid)
		}
	}
	w.sleep(rest)
	w.trace.end = time.Now()
	for _, o := range w.owners {
		health := o.agent.Health()
		if read := o.disk.readableFrom(); read.IsZero() || read.Sub(o.agent.span.from) > patience {
			health.Store = nil // lost files are not restored
		}
		health.Pods = slices.DeleteFunc(health.Pods, func(f loop.SyncFailure) bool { return w.neverStarts(f.UID) })
		if !health.OK() {
			w.trace.health = append(w.trace.health, o.name+": "+health.String())
		}
		w.trace.remembered = append(w.trace.remembered, o.disk.remembered()...)
		w.trace.keep("logs", o.disk.logged())
		w.trace.keep("directory", o.directories.all())
		w.trace.keep("cgroup", o.cgroups.all())
		w.trace.keep("devices", o.devices.all())
		w.trace.keep("volumes", o.volumes.all())
		w.trace.keep(pin, o.pins.all())
	}
	w.takeStock()
	for _, o := range w.owners {
		w.stop(o, false)
	}
	synctest.Wait() // for calls that are ending
	w.trace.called(w.rt.Journal())
	w.trace.ran(w.rt.Processes())
}

// neverStarts reports whether a pod fails even on a healthy node: its postStart handler
// does not end, or the runtime rejects its calls.
func (w *world) neverStarts(uid types.UID) bool {
	known := w.trace.pods[uid]
	return known != nil && (known.kind.name == "stuck" || known.hooked || known.kind.outcome == never)
}

// takeStock lists the objects of the runtime.
func (w *world) takeStock() {
	conn, err := w.rt.Dial()
	w.check(err)
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	sandboxes, err := client.ListPodSandbox(w.t.Context(), &runtimeapi.ListPodSandboxRequest{})
	w.check(err)
	list, err := client.ListContainers(w.t.Context(), &runtimeapi.ListContainersRequest{})
	w.check(err)
	w.trace.sandboxes, w.trace.containers = sandboxes.Items, list.Containers
	for _, c := range list.Containers {
		st, err := client.ContainerStatus(w.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.Id})
		if status.Code(err) == codes.NotFound {
			continue // removed just now, as the dead are
		}
		w.check(err)
		w.trace.quotas[c.Id] = st.GetStatus().GetResources().GetLinux().GetCpuQuota()
	}
}

// wantedPods returns those of sources that are not marked, of all owners, in order.
func (w *world) wantedPods(from ...string) []*v1.Pod {
	var all []*v1.Pod
	for _, o := range w.owners {
		for _, source := range from {
			all = slices.AppendSeq(all, maps.Values(o.wanted[source]))
		}
	}
	all = slices.DeleteFunc(all, func(p *v1.Pod) bool { return !w.trace.pods[p.UID].marked.IsZero() })
	slices.SortFunc(all, func(a, b *v1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return all
}
