package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// trouble is a kind of failure of a node. Each life draws some of them at random: lives with few
// troubles show effects that many troubles would hide.
type trouble struct {
	name string
	// begin is done before the first agent starts, nil for nothing.
	begin func(*world)
	// act is done now and then, nil for never.
	act func(*world)
	// last is done once more before the node is left in peace: what earlier acts of its kind
	// have led to has mostly been removed by then.
	last bool
}

var troubles = []trouble{
	{name: "calls go wrong", begin: func(w *world) { w.chaos.Rate = []float64{0.02, 0.1, 0.3}[w.rng.IntN(3)] }},
	{name: "events go wrong", begin: func(w *world) { w.chaos.EventRate = []float64{0.1, 0.5}[w.rng.IntN(2)] }},
	{name: "streams break", act: func(w *world) { w.say("streams break"); w.rt.DisconnectEvents(nil) }},
	{name: "restart runtime", act: (*world).restartRuntime},
	{name: "restart agent", act: (*world).restartAgent},
	{name: "restart both", act: (*world).restartBoth},
	{name: "sources are late", begin: func(w *world) { w.silence = time.Minute }},
	{name: "neighbour", begin: func(w *world) { w.owners = append(w.owners, newOwner("neighbour")) }},
	{name: "change", act: (*world).change},
	{name: "resize", act: (*world).resize, last: true},
	{name: "debug", act: (*world).debug},
	{name: "supersede", act: (*world).supersede},
	{name: "evict", act: (*world).evict},
	{name: "exit", act: (*world).exit},
	{name: "prune", act: (*world).prune},
	{name: "image away", act: (*world).imageAway},
	{name: "volumes fail", act: func(w *world) { w.fail("volumes", &w.volumes) }},
	{name: "reports fail", act: func(w *world) { w.fail("reports", &w.reports) }},
	{name: "disk fails", act: func(w *world) { w.fail("disk", &w.owners[w.rng.IntN(len(w.owners))].disk.outage) }},
	{name: "step clock", act: (*world).stepClock},
	{name: "unkillable", act: (*world).unkillable},
	{name: "exec hangs", act: (*world).execHangs},
	{name: "sandbox lost", act: (*world).loseSandbox, last: true},
	{name: "late address", act: (*world).lateAddress, last: true},
	{name: "late sandbox", act: (*world).lateSandbox},
}

// drawTroubles draws the troubles of a life. Every second life has only one or two, in order to
// test the rules that judge only lives without certain troubles. Half of these
// lives have a trouble with a last act.
func (w *world) drawTroubles() {
	w.acts = daily
	if w.often(50) {
		drawn := w.rng.Perm(len(troubles))
		if w.often(50) {
			slices.SortStableFunc(drawn, func(a, b int) int { return cmp.Compare(first(troubles[a].last), first(troubles[b].last)) })
		}
		for _, i := range drawn[:1+w.rng.IntN(2)] {
			w.have(troubles[i])
			if troubles[i].last {
				return
			}
		}
		return
	}
	share := []int{10, 25, 50}[w.rng.IntN(3)]
	for _, t := range troubles {
		if w.often(share) {
			w.have(t)
		}
	}
}

// first sorts true before false.
func first(is bool) int {
	if is {
		return 0
	}
	return 1
}

// have adds a trouble to a life.
func (w *world) have(t trouble) {
	w.say("trouble: %s", t.name)
	if t.begin != nil {
		w.trace.met[t.name]++
		t.begin(w)
	}
	if t.act == nil {
		return
	}
	w.acts = append(w.acts, act{t.name, t.act})
	if t.last {
		w.last = append(w.last, act{t.name, t.act})
	}
}

// outage is a time in which something does not work.
type outage struct {
	mu    sync.Mutex
	until time.Time
}

func (o *outage) set(until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = until
}

var errOutage = errors.New("simulation: out of order")

// err returns the error of an attempt now, nil if it works.
func (o *outage) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return errOutage
	}
	return nil
}

func (w *world) fail(what string, o *outage) {
	w.failFor(what, o, w.upTo(30*time.Second))
}

func (w *world) failFor(what string, o *outage, d time.Duration) {
	w.say("%s fails for %v", what, d)
	o.set(time.Now().Add(d))
}

func (w *world) restartRuntime() {
	r := faults.Restart{Down: w.upTo(30 * time.Second), Disconnect: w.often(50)}
	fates := [][2]faults.RestartEffect{
		{faults.EffectNone, faults.EffectNone}, {faults.EffectNone, faults.EffectStopped}, {faults.EffectNone, faults.EffectUnknown}, {faults.EffectNone, faults.EffectRemoved},
		{faults.EffectStopped, faults.EffectStopped}, {faults.EffectStopped, faults.EffectNone}, {faults.EffectStopped, faults.EffectUnknown}, {faults.EffectStopped, faults.EffectRemoved},
		{faults.EffectRemoved, faults.EffectRemoved},
	}
	fate := fates[w.rng.IntN(len(fates))]
	r.Sandboxes, r.Containers = fate[0], fate[1]
	w.say("runtime restarts: %+v", r)
	w.trace.runtimeAway(time.Now(), r.Down)
	w.check(w.rt.Restart(r))
}

// evict has the node stop a pod that its source still wants.
func (w *world) evict() {
	p := w.pick(sources...)
	if p == nil || w.trace.pods[p.UID].owner.agent == nil {
		return
	}
	for range 1 + w.rng.IntN(2) { // two who ask at once get an answer each
		w.kill(p.UID, w.trace.pods[p.UID].owner.agent)
	}
}

// killPatience is the timeout of a caller of a kill.
const killPatience = 10 * time.Minute

func (w *world) kill(uid types.UID, a *agent) {
	w.say("evict %s", uid)
	k := &kill{uid: uid, at: time.Now()}
	w.trace.kills = append(w.trace.kills, k)
	ctx, cancel := context.WithTimeout(a.ctx, killPatience)
	go func() {
		defer cancel()
		err := a.KillPod(ctx, uid, podworkers.StopRequest{
			GracePeriodSeconds: seconds(2), Report: &podworkers.StopReport{Reason: "Evicted", Message: "The node was low on resource: simulation."},
		})
		w.trace.mu.Lock()
		defer w.trace.mu.Unlock()
		k.answered, k.err = time.Now(), err
	}()
}

// imageAway has an image neither here nor anywhere for some time.
func (w *world) imageAway() {
	p := w.pick(sources...)
	if p == nil {
		return
	}
	image, d := p.Spec.Containers[0].Image, w.upTo(time.Minute)
	w.say("image %s is away for %v", image, d)
	_ = w.rt.Remove(image) // the runtime may not have it
	w.imageTaken = time.Now()
	i, err := w.rt.Inject(faults.Fault{
		Match: faults.Match{Method: critest.PullImage, Image: image}, Times: faults.Always, Err: status.Error(codes.NotFound, "simulation: no such image"),
	})
	w.check(err)
	w.after(d, i.Remove)
}

func (w *world) stepClock() {
	step := w.upTo(2*time.Hour) - time.Hour
	w.say("the clock steps by %v", step)
	w.rt.StepClock(step)
}

// unkillable has a process that no signal reaches, for some time.
func (w *world) unkillable() {
	p := w.some(func(p critest.Process) bool { return p.Ended.IsZero() })
	if p == nil {
		return
	}
	d := w.upTo(2 * time.Minute)
	w.trace.stubborn[p.ContainerID] = true
	w.say("%s %s %d cannot be killed for %v", p.PodUID, p.Container, p.Attempt, d)
	_ = w.rt.SetIgnoreSignals(p.ContainerID, faults.IgnoreSignals{Term: true, Kill: true, FirstStopOnly: w.often(50)}) // the runtime may have lost it
	w.after(d, func() { _ = w.rt.SetIgnoreSignals(p.ContainerID, faults.IgnoreSignals{}) })
}

// execHangs has handlers and probes hang.
func (w *world) execHangs() {
	d := w.upTo(time.Minute)
	w.say("exec hangs for %v", d)
	gate := new(faults.Gate)
	i, err := w.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.ExecSync}, Times: faults.Always, Hang: gate, IgnoreCancel: w.often(50)})
	w.check(err)
	w.after(d, func() { gate.Open(); i.Remove() })
}

// loseSandbox takes a pod's sandbox away, or its network, and not what runs in it.
func (w *world) loseSandbox() {
	p := w.some(func(p critest.Process) bool { return p.Ended.IsZero() })
	if p == nil {
		return
	}
	w.say("the sandbox of %s is lost", p.PodUID)
	_ = w.rt.EditSandbox(p.SandboxID, func(s *runtimeapi.PodSandboxStatus) { // the runtime may have lost it
		s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	})
}

// lateAddress makes the next sandboxes start without an address; the first one belongs to a new pod.
func (w *world) lateAddress() {
	d := w.upTo(time.Minute)
	w.say("addresses come %v late", d)
	_, err := w.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, Times: 1 + w.rng.IntN(3), IPAfter: d})
	w.check(err)
	w.add()
}

// lateSandbox makes a new pod's sandbox appear after the call has
// timed out, or after the pod was stopped.
func (w *world) lateSandbox() {
	d := []time.Duration{w.upTo(30 * time.Second), 4*time.Minute + w.upTo(2*time.Minute)}[w.rng.IntN(2)]
	w.say("a sandbox comes %v late", d)
	_, err := w.rt.Inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.Midway, Delay: d, IgnoreCancel: true})
	w.check(err)
	w.add()
	if w.often(50) {
		w.sleep(w.upTo(5 * time.Second))
		w.evict()
	}
}
