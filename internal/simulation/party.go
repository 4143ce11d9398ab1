package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// sources are the names of those that pods come from.
var sources = []string{"file", runtime.ConfigSourceAPI}

// party is one of those who share the runtime: agents, one after the other, of one
// owner, with what outlives them and the pods that they are to run.
type party struct {
	name  string
	disk  *disk
	agent *agent
	// wanted are the pods of each source, by UID.
	wanted map[string]map[types.UID]*v1.Pod
}

func newParty(name string) *party {
	p := &party{name: name, disk: newDisk(), wanted: map[string]map[types.UID]*v1.Pod{}}
	for _, s := range sources {
		p.wanted[s] = map[types.UID]*v1.Pod{}
	}
	return p
}

// agent is one run of a Loop.
type agent struct {
	*loop.Loop
	ctx    context.Context
	cancel context.CancelFunc
	conn   *grpc.ClientConn
	ended  chan struct{}
	span   *agentSpan
	push   map[string]*source.Push
}

// start starts an agent that is told of all pods sooner or later, source by source.
func (w *world) start(p *party) {
	conn, err := w.rt.Dial(append(asDialled(), grpc.WithUserAgent(p.name))...)
	w.check(err)
	a := &agent{
		conn: conn, ended: make(chan struct{}), push: map[string]*source.Push{},
		span: &agentSpan{party: p.name, told: map[string]time.Time{}},
	}
	var all []source.Source
	for _, name := range sources {
		a.push[name] = newPush(name)
		all = append(all, a.push[name])
	}
	a.Loop, err = loop.New(loop.Config{
		Client: cri.NewClient(conn), Sources: all, Store: p.disk,
		Sync: syncpod.Config{
			RuntimeName: "critest", Owner: cri.Owner{Name: p.name}, Sink: w.sink(), Logs: noLogs{}, Records: p.disk,
			Prepare:   syncpod.PreparerFunc(w.prepare),
			MaxStarts: -1, // turns depend on how busy the machine is
		},
		Workers: podworkers.Config{Observer: observer{trace: w.trace, agent: len(w.trace.agents)}},
	})
	w.check(err)
	a.span.from = time.Now()
	w.trace.agents = append(w.trace.agents, a.span)
	a.ctx, a.cancel = context.WithCancel(w.t.Context())
	go func() {
		defer close(a.ended)
		w.check(a.Run(a.ctx))
	}()
	p.agent = a
	w.say("%s: agent starts", p.name)
	for _, source := range sources {
		w.after(w.upTo(w.silence), func() {
			if p.agent == a {
				w.tell(p, source)
			}
		})
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
func (w *world) stop(p *party, crash bool) {
	w.say("%s: agent ends, crash %t", p.name, crash)
	if crash {
		p.agent.conn.Close()
	}
	p.agent.cancel()
	<-p.agent.ended
	p.agent.conn.Close()
	p.agent.span.to, p.agent.span.readable = time.Now(), p.disk.readableFrom()
	for uid := range p.disk.takeUnsaved() {
		w.trace.lapse(uid)
	}
	p.agent = nil
}

// hears reports whether a change of a source is told now: there is an agent, and the
// source has spoken to it.
func (p *party) hears(source string) bool {
	return p.agent != nil && !p.agent.span.told[source].IsZero()
}

// news has a source that has spoken say what it wants.
func (w *world) news(p *party, source string) {
	if p.hears(source) {
		w.tell(p, source)
	}
}

// tell has a source say what it wants.
func (w *world) tell(p *party, source string) {
	var pods []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(p.wanted[source])) {
		pods = append(pods, p.wanted[source][uid])
	}
	if p.agent.span.told[source].IsZero() {
		p.agent.span.told[source] = time.Now()
	}
	w.check(p.agent.push[source].Set(pods...))
}

// prepare makes the volumes of pods, while it can.
func (w *world) prepare(context.Context, *v1.Pod) (sandbox.Input, error) {
	return sandbox.Input{}, w.volumes.err()
}

// sink takes statuses, while it can.
func (w *world) sink() syncpod.StatusSink {
	return syncpod.StatusSinkFunc(func(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
		if err := w.reports.err(); err != nil {
			return err
		}
		return w.trace.SetPodStatus(ctx, pod, status)
	})
}

// noLogs are logs that tell nothing of attempts.
type noLogs struct{}

func (noLogs) MakeDirectory(string, string) error               { return nil }
func (noLogs) LastAttempt(string, string) (uint32, bool, error) { return 0, false, nil }

func newPush(name string) *source.Push {
	if name == runtime.ConfigSourceAPI {
		return source.NewPush()
	}
	return source.NewStaticPush(name)
}
