package loop

import (
	"cmp"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/internal/assemble"
	"github.com/podsync/podsync/syncpod/internal/gc"
	"github.com/podsync/podsync/syncpod/internal/podref"
	"github.com/podsync/podsync/syncpod/internal/rotate"
	"github.com/podsync/podsync/syncpod/probe"
)

// makeProbes makes the prober of the Client, if no other is given.
func (c *Config) makeProbes() error {
	switch {
	case c.Probes != nil && c.ProbeObserver != nil:
		return errors.New("loop: Config.ProbeObserver is set, and so is Probes, which has to tell it")
	case c.Probes == nil && c.Client == nil:
		c.Probes = noProbes{}
		return nil
	case c.Probes == nil:
		config := probe.Config{
			Exec: c.Client, Dial: c.Sync.Node.DialPod, Unhealthy: c.probeEvents("Unhealthy"), Warning: c.probeEvents("ProbeWarning"), Observer: c.ProbeObserver,
		}
		if hostIPs := c.Sync.Node.HostIPs; hostIPs != nil {
			config.HostIP = func() string { return first(hostIPs()) }
		}
		prober, err := probe.New(config)
		if err != nil {
			return fmt.Errorf("loop: Config.Client: %w", err)
		}
		c.Probes = prober
	}
	c.Sync.Deps.Probes = c.Probes
	return nil
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// probeEvents returns a function that records an event with that reason for each probe result.
func (c *Config) probeEvents(reason string) func(*v1.Pod, string, probe.Kind, string) {
	events := c.Sync.Events
	if events == nil {
		return nil
	}
	return func(pod *v1.Pod, container string, _ probe.Kind, message string) {
		events.Eventf(podref.ContainerNamed(pod, container), v1.EventTypeWarning, reason, "%s", message)
	}
}

// makeReader creates the reader of pods from the Client.
func (c *Config) makeReader() error {
	if c.Watch.Reader != nil {
		return nil
	}
	of := c.runtime()
	if _, err := of.RuntimeName(); err != nil {
		return fmt.Errorf("loop: Config.Sync.%w", err)
	}
	reader, err := of.Reader()
	if err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	c.Watch.Reader = reader
	if c.Watch.Events == nil {
		c.Watch.Events = c.Client
	}
	return nil
}

// makeSandboxes creates the sandbox runner from the Client: the Syncer must use the same one,
// because only one stop of a sandbox may be in flight.
func (c *Config) makeSandboxes() error {
	if c.Sync.Deps.Sandboxes != nil || c.Client == nil {
		return nil
	}
	runner, err := c.runtime().Sandboxes()
	if err != nil {
		return fmt.Errorf("loop: Config.Sync: %w", err)
	}
	c.Sync.Deps.Sandboxes = runner
	return nil
}

// runtime is what parts are made of.
func (c *Config) runtime() assemble.Runtime {
	return assemble.Runtime{Client: c.Client, Name: c.Sync.RuntimeName, Owner: c.Sync.Owner, Log: c.Sync.Log, Root: c.Sync.Root, DialPod: c.Sync.Node.DialPod}
}

// makeCollectors makes the default Collector, which goes by what the Watcher knows.
func (c *Config) makeCollectors() error {
	if c.Collectors != nil || c.Client == nil {
		return nil
	}
	config := gc.Config{Pods: c.Watch.Cache, Runtime: c.Client}
	if config.LogsRoot = c.logsRoot(); config.LogsRoot != "" {
		config.LogLinks = c.Sync.Node.LogLinks
	}
	collector, err := gc.New(config)
	if err != nil {
		return fmt.Errorf("loop: Config.Collectors: %w", err)
	}
	c.Collectors = []Collector{collector}
	return nil
}

// logsRoot is the directory of all logs, empty if they are no files.
func (c *Config) logsRoot() string {
	if c.Sync.Deps.Logs != nil {
		return ""
	}
	return cmp.Or(c.Sync.Node.LogsRoot, sandbox.DefaultLogsRoot)
}

// makeRotator makes the rotator of a LogPolicy, nil if there is none.
func (c *Config) makeRotator() (*rotate.Rotator, error) {
	if c.LogPolicy == nil {
		return nil, nil
	}
	if err := c.LogPolicy.Validate(); err != nil {
		return nil, fmt.Errorf("loop: Config.LogPolicy: %w", err)
	}
	if c.Client == nil {
		return nil, errors.New("loop: Config.LogPolicy needs a Client")
	}
	if c.Sync.Deps.Logs != nil {
		return nil, errors.New("loop: Config.LogPolicy: Sync.Deps.Logs is set, so where the logs are is not known")
	}
	rotator, err := rotate.New(rotate.Config{
		Pods: c.Watch.Cache, Runtime: c.Client, Policy: *c.LogPolicy, LogsRoot: c.logsRoot(),
	})
	if err != nil {
		return nil, fmt.Errorf("loop: Config.LogPolicy: %w", err)
	}
	return rotator, nil
}

// makeImageCollector makes the ImageCollector of an ImagePolicy. It shares the leases of
// what hands images out.
func (c *Config) makeImageCollector() error {
	if c.ImagePolicy == nil || c.ImageCollector != nil {
		return nil
	}
	if err := c.ImagePolicy.Validate(); err != nil {
		return fmt.Errorf("loop: Config.ImagePolicy: %w", err)
	}
	if c.Client == nil {
		return errors.New("loop: Config.ImagePolicy needs a Client or an ImageCollector")
	}
	if c.Sync.Deps.Images == nil {
		manager, err := c.runtime().Images()
		if err != nil {
			return fmt.Errorf("loop: Config.Sync: %w", err)
		}
		c.Sync.Deps.Images = manager
	}
	leased, ok := c.Sync.Deps.Images.(interface{ Leases() *image.Leases })
	if !ok {
		return errors.New("loop: Config.ImagePolicy: Sync.Deps.Images has no method Leases, so which images are about to be used is not known")
	}
	collector, err := image.NewCollector(image.CollectorConfig{
		Runtime: c.Client, Leases: leased.Leases(), Policy: *c.ImagePolicy, Pods: c.Watch.Cache, Log: c.Log,
		AlwaysList: c.EvictionPolicy != nil, // all of them may have to go
	})
	if err != nil {
		return fmt.Errorf("loop: Config.ImageCollector: %w", err)
	}
	c.ImageCollector = collector
	return nil
}
