package agent

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/probe"
)

// probes runs pod probes, and records failures as events.
type probes struct {
	*probe.Manager
	host loop.Host // set by Run
}

var (
	_ syncpod.Probes = (*probes)(nil)
	_ loop.Part      = (*probes)(nil)
)

// makeProbes returns nil if NoProbes is set.
func (c *Config) makeProbes() (*probes, error) {
	if c.NoProbes {
		return nil, nil
	}
	p := &probes{}
	config := probe.Config{Exec: c.Client, Dial: c.Sync.Node.DialPod, Unhealthy: p.event(syncpod.EventUnhealthy), Warning: p.event(syncpod.EventProbeWarning), Observer: c.ProbeObserver}
	if hostIPs := c.Sync.Node.HostIPs; hostIPs != nil {
		config.HostIP = func() string {
			for _, ip := range hostIPs() {
				return ip
			}
			return ""
		}
	}
	var err error
	if p.Manager, err = probe.New(config); err != nil {
		return nil, fmt.Errorf("agent: Config.Client: %w", err)
	}
	return p, nil
}

// event returns a function that records an event about a probe. The Prober calls it while Run runs.
func (p *probes) event(reason string) func(*v1.Pod, string, probe.Kind, string) {
	return func(pod *v1.Pod, container string, _ probe.Kind, message string) {
		p.host.Events().Eventf(podref.ContainerNamed(pod, container), v1.EventTypeWarning, reason, "%s", message)
	}
}

// Run probes until ctx ends.
func (p *probes) Run(ctx context.Context, host loop.Host) error {
	p.host = host
	return p.Manager.Run(ctx, host.PodChanged)
}
