package simulation

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/plancheck"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// sources are the names of the pod sources.
var sources = []string{"file", runtime.ConfigSourceAPI}

// owner is one of the owners that share the runtime, identified by a label. It has a sequence of agents, one
// after the other, the disk that outlives them, and the pods that they must run.
type owner struct {
	name  string
	disk  *disk
	agent *agent
	// directories, cgroups and devices are what the agents have made for pods.
	directories, cgroups, devices *kept
	// volumes and pins are the mounts of containers, away is when none can be made.
	volumes, pins *kept
	away          *outage
	// wanted are the pods of each source, by UID.
	wanted map[string]map[types.UID]*v1.Pod
}

func newOwner(name string) *owner {
	o := &owner{name: name, disk: newDisk(), wanted: map[string]map[types.UID]*v1.Pod{}}
	o.directories, o.cgroups, o.devices = newKept(new(outage)), newKept(new(outage)), newKept(new(outage))
	o.volumes, o.pins, o.away = newKept(new(outage)), newKept(new(outage)), new(outage)
	for _, s := range sources {
		o.wanted[s] = map[types.UID]*v1.Pod{}
	}
	return o
}

// agent is one run of an Agent.
type agent struct {
	*nodeagent.Agent
	ctx    context.Context
	cancel context.CancelFunc
	conn   io.Closer
	ended  chan struct{}
	span   *agentSpan
	push   map[string]*source.Push
}

// start starts an agent that receives all pods sooner or later, source by source.
func (w *world) start(o *owner) {
	conn, err := w.rt.Dial(append(asDialled(), grpc.WithUserAgent(o.name))...)
	w.check(err)
	a := &agent{
		conn: conn, ended: make(chan struct{}), push: map[string]*source.Push{},
		span: &agentSpan{owner: o.name, told: map[string]time.Time{}},
	}
	var all []source.Source
	for _, name := range sources {
		a.push[name] = newPush(name)
		all = append(all, a.push[name])
	}
	cfg := nodeagent.Config{
		Client: cri.NewClient(conn), Sources: all,
		// These depend on this machine.
		NoLogRotation: true, NoImageGC: true, NoEviction: true, NoOOMEvents: true,
		Sync: syncpod.Config{
			RuntimeName: "critest", Owner: cri.Owner{Name: o.name}, Sink: w.sink(), Objects: syncpod.Objects{Sources: w.objects.sources(), PullSecrets: &w.objects},
			Parts: syncpod.Parts{
				Logs: logs{o.disk}, Records: o.disk, Prepare: directories{o.directories, &w.volumes}, Clean: []syncpod.Cleaner{o.directories, o.pins, o.volumes},
				Mounts: mounts{o.volumes, o.pins, o.away, w.objects.available},
			},
			Extensions: syncpod.Extensions{Cgroups: cgroups{o.cgroups}, Devices: devices{o.devices, &w.objects.plugin}},
			Limits:     syncpod.Limits{MaxParallelStarts: -1}, // turns depend on how busy the machine is
		},
		Store:   o.disk,
		Workers: podworkers.Config{Observer: observer{trace: w.trace, agent: len(w.trace.agents)}},
	}
	a.span.plans = plancheck.New()
	a.span.plans.Watch(&cfg)
	a.Agent, err = nodeagent.New(cfg)
	w.check(err)
	a.span.from = time.Now()
	w.trace.agents = append(w.trace.agents, a.span)
	a.ctx, a.cancel = context.WithCancel(w.t.Context())
	go func() {
		defer close(a.ended)
		w.check(a.Run(a.ctx))
	}()
	o.agent = a
	w.say("%s: agent starts", o.name)
	for _, source := range sources {
		w.after(w.upTo(w.silence), func() {
			if o.agent == a {
				w.deliver(o, source)
			}
		})
	}
}

// asDialled returns the options of a connection by cri.Dial, without the jitter of
// its reconnections, which a seed could not reproduce.
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
func (w *world) stop(o *owner, crash bool) {
	w.say("%s: agent ends, crash %t", o.name, crash)
	if crash {
		o.agent.conn.Close()
	}
	o.agent.cancel()
	<-o.agent.ended
	o.agent.conn.Close()
	o.agent.span.to, o.agent.span.readable = time.Now(), o.disk.readableFrom()
	for uid := range o.disk.takeUnsaved() {
		w.trace.loseRecord(uid, !o.disk.hasRecord(uid))
	}
	o.agent = nil
}

// hears reports whether a change of a source is delivered now: an agent runs, and the source has
// delivered to it.
func (o *owner) hears(source string) bool {
	return o.agent != nil && !o.agent.span.told[source].IsZero()
}

// news makes a source that has delivered before deliver its pods again.
func (w *world) news(o *owner, source string) {
	if o.hears(source) {
		w.deliver(o, source)
	}
}

// deliver makes a source deliver its pods.
func (w *world) deliver(o *owner, source string) {
	var pods []*v1.Pod
	for _, uid := range slices.Sorted(maps.Keys(o.wanted[source])) {
		pods = append(pods, o.wanted[source][uid])
	}
	if o.agent.span.told[source].IsZero() {
		o.agent.span.told[source] = time.Now()
	}
	w.check(o.agent.push[source].Set(pods...))
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

// logs are logs on the disk of an owner, which show no attempts.
type logs struct{ *disk }

func (l logs) MakeDirectory(dir, _ string) error {
	l.makeLogs(types.UID(dir[strings.LastIndex(dir, "_")+1:]))
	return nil
}

func (logs) LastAttempt(string, string) (uint32, bool, error) { return 0, false, nil }

// RemovePod removes the logs of a pod, while the disk works.
func (l logs) RemovePod(_ context.Context, pod types.UID) error { return l.removeLogs(pod) }

func newPush(name string) *source.Push {
	if name == runtime.ConfigSourceAPI {
		return source.NewPush()
	}
	return source.NewStaticPush(name)
}
