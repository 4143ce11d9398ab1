package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/foreign/lines"
	"github.com/podsync/podsync/runtime/image"
	podstats "github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
)

// An Agent runs a node's pods. Create one with New. Its methods may be called concurrently.
type Agent struct {
	*loop.Loop
	stats     *podstats.Reader
	evictions *evictions // nil if it evicts no pods
}

// New returns an Agent that does nothing until Run is called. The error names the missing or invalid
// field of the Config.
func New(c Config) (*Agent, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	c.Log = lines.Bound(c.Log)
	reader, err := podstats.New(podstats.Config{Runtime: c.Client, Dir: c.Root, PodsCgroup: podsCgroup(c.Sync.Extensions.Cgroups)})
	if err != nil {
		return nil, fmt.Errorf("agent: Config.Root: %w", err)
	}
	pulls, err := image.New(image.Config{Settings: c.Images, Dir: c.imagesDir(), Log: c.Log})
	if err != nil {
		return nil, fmt.Errorf("agent: Config.Images: %w", err)
	}
	if c.Sync.Parts.Images == nil {
		c.Sync.Parts.Images = pulls
	}
	a := &Agent{stats: reader}
	parts, err := a.parts(&c, pulls)
	if err != nil {
		return nil, err
	}
	if a.Loop, err = loop.New(c.loop(parts)); err != nil {
		return nil, err
	}
	return a, nil
}

// podsCgroup returns the path of the cgroup of all pods, "" if it is unknown.
func podsCgroup(cgroups syncpod.Cgroups) string {
	if cgroups == nil {
		return ""
	}
	return cgroups.PodsCgroup()
}

// parts creates the parts of the agent that run alongside the pods.
func (a *Agent) parts(c *Config, manager *image.Manager) (all []loop.Part, err error) {
	probes, err := c.makeProbes()
	if err != nil {
		return nil, err
	}
	rotation, err := c.makeRotation()
	if err != nil {
		return nil, err
	}
	containers, err := c.makeContainerGC()
	if err != nil {
		return nil, err
	}
	images, err := c.makeImageGC(manager)
	if err != nil {
		return nil, err
	}
	if a.evictions, err = c.makeEvictions(a.stats, containers, images); err != nil {
		return nil, err
	}
	if probes != nil {
		c.Sync.Parts.Probes = probes
		all = append(all, probes)
	}
	if rotation != nil {
		all = append(all, rotation)
	}
	if containers != nil {
		all = append(all, containers)
	}
	if images != nil {
		all = append(all, images)
	}
	if a.evictions != nil {
		all = append(all, a.evictions)
	}
	if kills := c.makeOOMReporter(); kills != nil {
		all = append(all, kills)
	}
	return append(all, c.Parts...), nil
}

// Stats returns the reader of resource usage for the field Stats of [github.com/podsync/podsync/syncpod/server.Config],
// which serves the usage at /stats/summary and /metrics/resource.
func (a *Agent) Stats() *podstats.Reader { return a.stats }

// Pressure returns the conditions MemoryPressure, DiskPressure and PIDPressure of the node, as of the
// last measurement. It returns none with NoEviction, and before the first measurement.
func (a *Agent) Pressure() []v1.NodeCondition {
	if a.evictions == nil {
		return nil
	}
	return a.evictions.Last().Conditions
}

// ExplainPressure explains why the last measurement led to a pod's eviction, or why the pod
// stays. It returns "" with NoEviction.
func (a *Agent) ExplainPressure(pod types.UID) string {
	if a.evictions == nil {
		return ""
	}
	return a.evictions.Last().Explain(pod)
}
