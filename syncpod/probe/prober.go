package probe

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// Config configures a Manager.
type Config struct {
	// Exec runs exec probes' commands. Required.
	Exec cri.Execer
	// Dial connects to the probed endpoint, for agents that do not reach their pods through the
	// node's network. It must return when its context ends. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// HostIP returns the address at which pods in the node's network are probed. It is called
	// before each check, by several goroutines at a time. Default, also if it returns "":
	// 127.0.0.1.
	HostIP func() string
	// Unhealthy is called after each failure, and after each check without a result because it could not be carried out,
	// with a message for people. It must not block.
	// Default: none.
	Unhealthy func(pod *v1.Pod, container string, kind Kind, message string)
	// Warning is called, in the same way, after each redirect of an httpGet to another host, which
	// counts as success: with up to 512 bytes of its body, as users of Kubernetes expect. An
	// endpoint must not write secrets there. Default: none.
	Warning func(pod *v1.Pod, container string, kind Kind, message string)
	// Observer is notified of each check. Default: none.
	Observer Observer
}

// A Manager runs probes.
type Manager struct {
	config  Config
	checker *Checker

	mu   sync.Mutex
	pods map[types.UID]*pod
	// ctx and changed are set while Run runs, and nil otherwise.
	ctx     context.Context
	changed func(types.UID)
	running sync.WaitGroup
}

// New returns a Manager that probes nothing until Run is called.
func New(c Config) (*Manager, error) {
	if c.Exec == nil {
		return nil, errors.New("probe: Config.Exec is missing")
	}
	if c.HostIP == nil {
		c.HostIP = func() string { return "" }
	}
	if c.Unhealthy == nil {
		c.Unhealthy = func(*v1.Pod, string, Kind, string) {}
	}
	if c.Warning == nil {
		c.Warning = func(*v1.Pod, string, Kind, string) {}
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	checker, err := NewChecker(CheckerConfig{Exec: c.Exec, Dial: c.Dial})
	if err != nil {
		return nil, err
	}
	return &Manager{config: c, checker: checker, pods: map[types.UID]*pod{}}, nil
}

// Run probes until ctx ends, and returns nil when nothing is probed any more. It
// calls changed for each pod one of whose results has changed; changed must not
// wait for anything. It can be called again then.
func (p *Manager) Run(ctx context.Context, changed func(pod types.UID)) error {
	if !p.begin(ctx, changed) {
		return errors.New("probe: Run is running already")
	}
	<-ctx.Done()
	p.mu.Lock()
	p.ctx = nil
	for _, pod := range p.pods {
		for _, probe := range pod.probes {
			probe.rest()
		}
	}
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

func (p *Manager) begin(ctx context.Context, changed func(types.UID)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx != nil {
		return false
	}
	p.ctx, p.changed = ctx, changed
	for _, pod := range p.pods {
		for _, probe := range pod.probes {
			p.schedule(probe, probe.first())
		}
	}
	return true
}

// Observe passes a pod's desired and actual state. While it is ending, only its containers'
// readiness is probed. Neither is modified. A nil status means that nothing of the pod runs. Without a spec there is nothing to
// probe.
func (p *Manager) Observe(spec *v1.Pod, status *runtime.PodStatus, ending bool) {
	if spec == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[spec.UID]
	if known == nil {
		known = &pod{probes: map[key]*probe{}}
		p.pods[spec.UID] = known
	}
	known.spec, known.ip = spec, addressOf(status)
	wanted := wantedProbes(known, status, ending)
	for k, probe := range known.probes {
		if wanted[k] == nil {
			probe.rest()
			delete(known.probes, k)
		}
	}
	maps.DeleteFunc(wanted, func(k key, _ *probe) bool { return known.probes[k] != nil })
	maps.Copy(known.probes, wanted) // all of them, before one waits for another
	for _, probe := range wanted {
		p.schedule(probe, probe.first())
	}
	if len(known.probes) == 0 {
		delete(p.pods, spec.UID)
	}
}

// Forget ends all probes of a pod.
func (p *Manager) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.pods[uid]; known != nil {
		for _, probe := range known.probes {
			probe.rest()
		}
		delete(p.pods, uid)
	}
	p.config.Observer.PodForgotten(uid)
}

// ProbeResults returns the newest results of a pod's probes, by container.
func (p *Manager) ProbeResults(uid types.UID) map[runtime.ContainerID]actions.ProbeResults {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.pods[uid]
	if known == nil {
		return nil
	}
	results := map[runtime.ContainerID]actions.ProbeResults{}
	for k, probe := range known.probes {
		r := results[k.id]
		switch k.kind {
		case Startup:
			r.Startup = probe.result
		case Liveness:
			r.Liveness = probe.result
		case Readiness:
			r.Readiness = probe.result
		}
		results[k.id] = r
	}
	return results
}

// addressOf returns the first address of the pod's sandbox.
func addressOf(status *runtime.PodStatus) string {
	if ips := status.IPs(); len(ips) > 0 {
		return ips[0]
	}
	return ""
}
