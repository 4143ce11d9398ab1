package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
)

// sources are the names of those that pods come from.
var sources = []string{"file", runtime.ConfigSourceAPI}

const (
	maxPods = 5
	// rest is how long all is left alone in the end. Back-offs of 5 min fit in.
	rest = 20 * time.Minute
)

// world is a node that lives through random times.
type world struct {
	t     testing.TB
	rng   *rand.Rand
	rt    *critest.Runtime
	disk  *disk
	trace *trace
	// wanted are the pods of each source, by UID.
	wanted map[string]map[types.UID]*v1.Pod
	made   int
	agent  *agent
	chaos  critest.Random
}

// agent is one run of a Loop.
type agent struct {
	*loop.Loop
	cancel context.CancelFunc
	conn   *grpc.ClientConn
	ended  chan struct{}
	span   *agentSpan
	push   map[string]*loop.Push
}

// live plays the life of a seed and returns its trace. It has to be called in a
// bubble.
func live(t testing.TB, seed uint64) *trace {
	rng := rand.New(rand.NewPCG(seed, 1))
	model := []critest.Model{critest.Containerd2, critest.Containerd16, critest.CRIO}[rng.IntN(3)]
	name := map[critest.Model]string{critest.CRIO: "cri-o"}[model]
	rt, _ := critest.Start(t, critest.Config{Like: model, Name: name})
	w := &world{t: t, rng: rng, rt: rt, disk: newDisk(), trace: newTrace(), wanted: map[string]map[types.UID]*v1.Pod{}}
	for _, s := range sources {
		w.wanted[s] = map[types.UID]*v1.Pod{}
	}
	w.chaos = critest.Random{
		Seed: seed, Rate: []float64{0, 0.02, 0.1, 0.3}[rng.IntN(4)], EventRate: []float64{0, 0.1, 0.5}[rng.IntN(3)],
		MaxDelay: time.Duration(1+rng.IntN(20)) * time.Second, Latency: latency,
	}
	w.say("model %d, rates %v and %v, delays up to %v", model, w.chaos.Rate, w.chaos.EventRate, w.chaos.MaxDelay)
	w.trace.begin = time.Now()
	w.start()
	w.check(rt.SetRandom(w.chaos))
	for range 15 + rng.IntN(25) {
		w.act()
		w.sleep(w.upTo(8 * time.Second))
	}
	w.settle()
	return w.trace
}

// latency bounds the time that each call and event takes at least.
const latency = 5 * time.Millisecond

func (w *world) sleep(d time.Duration) { time.Sleep(d) }

// upTo is a time that hardly anything else happens at.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

func (w *world) check(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// say notes what is done to the node.
func (w *world) say(format string, args ...any) {
	w.trace.said = append(w.trace.said, event{time.Now(), fmt.Sprintf(format, args...)})
}

// start starts an agent that is told of all pods sooner or later, source by source.
func (w *world) start() {
	conn, err := w.rt.Dial(asDialled()...)
	w.check(err)
	a := &agent{conn: conn, ended: make(chan struct{}), push: map[string]*loop.Push{}, span: &agentSpan{told: map[string]time.Time{}}}
	var all []loop.Source
	for _, name := range sources {
		a.push[name] = loop.NewPush(name)
		all = append(all, a.push[name])
	}
	a.Loop, err = loop.New(loop.Config{
		Client: cri.NewClient(conn), Sources: all, Store: w.disk,
		Sync: syncpod.Config{RuntimeName: "critest", Sink: w.trace, Logs: noLogs{}, Records: w.disk,
			MaxStarts: -1}, // turns depend on how busy the machine is
		Workers: podworkers.Config{Observer: observer{trace: w.trace, agent: len(w.trace.agents)}},
	})
	w.check(err)
	a.span.from = time.Now()
	w.trace.mu.Lock()
	w.trace.agents = append(w.trace.agents, a.span)
	w.trace.mu.Unlock()
	var ctx context.Context
	ctx, a.cancel = context.WithCancel(w.t.Context())
	go func() {
		defer close(a.ended)
		w.check(a.Run(ctx))
	}()
	w.agent = a
	w.say("agent starts")
	for _, name := range sources {
		w.sleep(w.upTo(3 * time.Second))
		w.tell(name)
	}
}

// asDialled are the options of a connection that cri.Dial makes, but for the jitter of
// its reconnections, which no seed would bring back.
func asDialled() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(cri.Timeouts{}.Interceptor()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
}

// stop ends the agent, as a crash would or in peace.
func (w *world) stop(crash bool) {
	w.say("agent ends, crash %t", crash)
	if crash {
		w.agent.conn.Close()
	}
	w.agent.cancel()
	<-w.agent.ended
	w.agent.conn.Close()
	w.agent.span.to = time.Now()
	w.agent = nil
}

// tell has a source say what it wants.
func (w *world) tell(source string) {
	if w.agent == nil {
		return
	}
	var pods []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(w.wanted[source])) {
		pods = append(pods, w.wanted[source][uid])
	}
	if w.agent.span.told[source].IsZero() {
		w.agent.span.told[source] = time.Now()
	}
	w.check(w.agent.push[source].Set(pods...))
}

// settle leaves the node in peace until it must have arrived, and looks at what is
// there.
func (w *world) settle() {
	w.say("peace")
	w.check(w.rt.SetRandom(critest.Random{Seed: w.chaos.Seed, Latency: latency}))
	w.sleep(time.Minute)
	for uid, known := range w.trace.pods {
		if !known.marked.IsZero() && known.removed.IsZero() {
			w.drop(uid)
		}
	}
	w.sleep(rest)
	w.trace.end = time.Now()
	w.trace.health = w.agent.Health().String()
	w.trace.remembered = w.disk.remembered()
	conn, err := w.rt.Dial()
	w.check(err)
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	sandboxes, err := client.ListPodSandbox(w.t.Context(), &runtimeapi.ListPodSandboxRequest{})
	w.check(err)
	list, err := client.ListContainers(w.t.Context(), &runtimeapi.ListContainersRequest{})
	w.check(err)
	w.trace.sandboxes, w.trace.containers = sandboxes.Items, list.Containers
	w.stop(false)
	synctest.Wait() // for calls that are ending
	w.trace.calls = w.rt.Journal()
	w.trace.ran(w.rt.Processes())
}

// noLogs are logs that tell nothing of attempts.
type noLogs struct{}

func (noLogs) MakeDirectory(string, string) error               { return nil }
func (noLogs) LastAttempt(string, string) (uint32, bool, error) { return 0, false, nil }
