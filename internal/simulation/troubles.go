package simulation

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// trouble is one way in which a node may have it hard. Each life draws which of them
// it has: those that have few see what the others would drown.
type trouble struct {
	name string
	// begin is done before the first agent starts, nil for nothing.
	begin func(*world)
	// act is done now and then, nil for never.
	act func(*world)
}

var troubles = []trouble{
	{"calls go wrong", func(w *world) { w.chaos.Rate = []float64{0.02, 0.1, 0.3}[w.rng.IntN(3)] }, nil},
	{"events go wrong", func(w *world) { w.chaos.EventRate = []float64{0.1, 0.5}[w.rng.IntN(2)] }, nil},
	{"streams break", nil, func(w *world) { w.say("streams break"); w.rt.DisconnectEvents(nil) }},
	{"restart runtime", nil, (*world).restartRuntime},
	{"restart agent", nil, (*world).restartAgent},
	{"restart both", nil, (*world).restartBoth},
	{"sources are late", func(w *world) { w.silence = time.Minute }, nil},
	{"neighbour", func(w *world) { w.owners = append(w.owners, newOwner("neighbour")) }, nil},
	{"change", nil, (*world).change},
	{"resize", nil, (*world).resize},
	{"debug", nil, (*world).debug},
	{"supersede", nil, (*world).supersede},
	{"evict", nil, (*world).evict},
	{"exit", nil, (*world).exit},
	{"prune", nil, (*world).prune},
	{"image away", nil, (*world).imageAway},
	{"volumes fail", nil, func(w *world) { w.fail("volumes", &w.volumes) }},
	{"reports fail", nil, func(w *world) { w.fail("reports", &w.reports) }},
	{"disk fails", nil, func(w *world) { w.fail("disk", &w.owners[w.rng.IntN(len(w.owners))].disk.outage) }},
	{"step clock", nil, (*world).stepClock},
	{"unkillable", nil, (*world).unkillable},
	{"exec hangs", nil, (*world).execHangs},
	{"sandbox lost", nil, (*world).loseSandbox},
	{"late address", nil, (*world).lateAddress},
	{"late sandbox", nil, (*world).lateSandbox},
}

// drawTroubles has a life begin with some of them.
func (w *world) drawTroubles() {
	w.acts = daily
	share := []int{10, 25, 50}[w.rng.IntN(3)]
	for _, t := range troubles {
		if !w.often(share) {
			continue
		}
		w.say("trouble: %s", t.name)
		if t.begin != nil {
			w.trace.met[t.name]++
			t.begin(w)
		}
		if t.act != nil {
			w.acts = append(w.acts, act{t.name, t.act})
		}
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

// err is that of a try now, nil if it works.
func (o *outage) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return errOutage
	}
	return nil
}

func (w *world) fail(what string, o *outage) {
	d := w.upTo(30 * time.Second)
	w.say("%s fails for %v", what, d)
	o.set(time.Now().Add(d))
}

func (w *world) restartRuntime() {
	r := critest.Restart{Down: w.upTo(30 * time.Second), Disconnect: w.often(50)}
	fates := [][2]critest.RestartEffect{
		{critest.EffectNone, critest.EffectNone}, {critest.EffectNone, critest.EffectStopped}, {critest.EffectNone, critest.EffectUnknown}, {critest.EffectNone, critest.EffectRemoved},
		{critest.EffectStopped, critest.EffectStopped}, {critest.EffectStopped, critest.EffectNone}, {critest.EffectStopped, critest.EffectUnknown}, {critest.EffectStopped, critest.EffectRemoved},
		{critest.EffectRemoved, critest.EffectRemoved},
	}
	fate := fates[w.rng.IntN(len(fates))]
	r.Sandboxes, r.Containers = fate[0], fate[1]
	w.say("runtime restarts: %+v", r)
	w.trace.away = append(w.trace.away, span{time.Now(), time.Now().Add(r.Down)})
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

// killPatience is how long who asks for a kill waits for its answer.
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
	_ = w.rt.Remove(image) // it may not be there
	i, err := w.rt.Inject(critest.Fault{
		Match: critest.Match{Method: critest.PullImage, Image: image}, Times: critest.Always, Err: status.Error(codes.NotFound, "simulation: no such image"),
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
	_ = w.rt.SetIgnoreSignals(p.ContainerID, critest.IgnoreSignals{Term: true, Kill: true, FirstStopOnly: w.often(50)}) // the runtime may have lost it
	w.after(d, func() { _ = w.rt.SetIgnoreSignals(p.ContainerID, critest.IgnoreSignals{}) })
}

// execHangs has handlers and probes hang.
func (w *world) execHangs() {
	d := w.upTo(time.Minute)
	w.say("exec hangs for %v", d)
	gate := new(critest.Gate)
	i, err := w.rt.Inject(critest.Fault{Match: critest.Match{Method: critest.ExecSync}, Times: critest.Always, Hang: gate, IgnoreCancel: w.often(50)})
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

// lateAddress has the next sandboxes come up without an address.
func (w *world) lateAddress() {
	d := w.upTo(time.Minute)
	w.say("addresses come %v late", d)
	_, err := w.rt.Inject(critest.Fault{Match: critest.Match{Method: critest.RunPodSandbox}, Times: 1 + w.rng.IntN(3), IPAfter: d})
	w.check(err)
}

// lateSandbox has a new pod's sandbox come up when nobody waits for it any more: the call
// has timed out, or the pod was stopped.
func (w *world) lateSandbox() {
	d := []time.Duration{w.upTo(30 * time.Second), 4*time.Minute + w.upTo(2*time.Minute)}[w.rng.IntN(2)]
	w.say("a sandbox comes %v late", d)
	_, err := w.rt.Inject(critest.Fault{Match: critest.Match{Method: critest.RunPodSandbox}, When: critest.Midway, Delay: d, IgnoreCancel: true})
	w.check(err)
	w.add()
	if w.often(50) {
		w.sleep(w.upTo(5 * time.Second))
		w.evict()
	}
}
