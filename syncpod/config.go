package syncpod

import (
	"cmp"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/internal/base/pace"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume"
)

// Config is what a Syncer is made of. The least is a Client, and the Root that
// files are kept below.
type Config struct {
	// Client is the connection to the runtime, of which Runtime, RuntimeName,
	// Statuses, Sandboxes, Images, Updater and Hooks are made if they are missing.
	// Required, unless the first five of those are there.
	Client *cri.Client
	// Root is the directory that the agent may write below, an absolute path. With
	// it, what is missing of Prepare, Refresh, Mounts, Clean, Messages and Records is
	// that of package poddir, and files. Default: no files are kept, and a pod that needs
	// some fails.
	Root string

	// Runtime makes and ends containers.
	Runtime cri.ContainerRunner
	// RuntimeName is the type in container IDs. A Client that was dialled knows it.
	RuntimeName string
	// Statuses reads what the runtime has of a pod.
	Statuses Statuses
	// Sandboxes makes and ends sandboxes.
	Sandboxes Sandboxes
	// Images makes sure that images are there.
	Images Images
	// Node is what all containers of the node have in common. Its MemoryBytes are by
	// default what the operating system reports, or DefaultMemoryBytes.
	Node container.Node
	// Owner marks what is made. It must be that of Statuses and Sandboxes. Default:
	// the agent "podsync".
	Owner cri.Owner

	// Sink takes the statuses of pods. Default: nobody does.
	Sink StatusSink
	// Admit are the checks that a pod has to pass to run, in order. Default: none.
	Admit []Admitter
	// Network says whether pods can have a network. Default: they can.
	Network Network
	// Cgroups makes the cgroups of pods. Default: that is left to the runtime.
	Cgroups Cgroups
	// Mirrors shows static pods to an API server. Default: nobody does.
	Mirrors Mirrors
	// Hooks runs postStart and preStop handlers. Default: those of package hook,
	// with the Client. Without one a container with a postStart handler fails, and
	// preStop handlers are skipped with an event.
	Hooks HookRunner
	// Events gets what happens to pods. Default: nobody does.
	Events EventRecorder
	// Observer is told how long things took. Default: nobody is.
	Observer Observer
	// Probes knows the results of probes. Default: there are none.
	Probes Probes
	// Prepare gets the node ready for a pod. Default: nothing is to be done.
	Prepare Preparer
	// Refresh keeps the volumes of running pods up to date. Default: that of package
	// poddir if Prepare is by default, too, or else nobody does.
	Refresh Refresher
	// Volumes makes the volumes of pods below Root. Default: those of package volume,
	// with the sources in Env and Tokens.
	Volumes poddir.Volumes
	// Tokens gets tokens of service accounts for volumes. Default: a pod that wants
	// one fails.
	Tokens volume.Tokens
	// Mounts gives containers their mounts. Default: none.
	Mounts Mounter
	// Messages reads the termination messages of containers. Default: those that the
	// runtime reports.
	Messages Messages
	// Lifecycle is called around the life of containers. Default: NopLifecycle.
	Lifecycle Lifecycle
	// Clean are called, all of them, once a pod has stopped for good.
	Clean []Cleaner
	// PullSecrets gets the secrets to pull with. Default: none.
	PullSecrets PullSecrets
	// RuntimeClasses knows runtime classes. Default: pods that name one fail.
	RuntimeClasses sandbox.RuntimeClasses
	// Records keeps what should outlive the agent. Default: nothing does, see Records
	// for what follows.
	Records Records
	// Updater changes the resources of running containers. Default: nothing is
	// resized in place.
	Updater cri.ContainerUpdater

	// DNS is what the node knows about name resolution, of which package sandbox makes
	// the resolver configuration of each pod that Prepare gives none. Default: that
	// is left to the runtime, which takes the node's own; a pod with a dnsConfig has
	// what stands there alone.
	DNS sandbox.NodeDNS
	// Env gets ConfigMaps, Secrets, Services and the keys of env files for environment
	// variables. Each of these may be missing, see env.Sources.
	Env env.Sources
	// HostIPs are the addresses of the node, the primary first.
	HostIPs []string
	// Allocatable is what the node can give to pods.
	Allocatable v1.ResourceList

	// LogsRoot is the directory of the logs of all pods. Default
	// sandbox.DefaultLogsRoot.
	LogsRoot string
	// LogLinks is the directory that gets a symbolic link to each container's log,
	// for log shippers that look in /var/log/containers. Default: no links.
	LogLinks string
	// Logs knows which attempts have left logs. Default: the files below LogsRoot.
	Logs Logs

	// FirstBackOff and MaxBackOff are the waits before a container that crashes, or
	// cannot be made, is tried again; they double from the one to the other. Default
	// those of package backoff, 10 s and 5 min.
	FirstBackOff, MaxBackOff time.Duration
	// ReservedTries is after how many refusals of a container's name that nothing
	// listed holds the next attempt is taken. Default 3.
	ReservedTries int
	// PostStartTimeout is how long a postStart handler may take; the containers
	// after it in the spec wait for it. Default 2 min.
	PostStartTimeout time.Duration
	// StopPatience is how long the runtime may take, beyond the time given to the
	// processes, until a stop is given up to be tried again. Default 30 s.
	StopPatience time.Duration
	// CleanupTimeout bounds what is tidied up after the context of a call has
	// ended. Default 10 s.
	CleanupTimeout time.Duration
	// MaxStarts is how many sandboxes and containers are started at once while the
	// node has no processor to spare; the others wait for their turn, those of pods
	// that have a sandbox first. So most of many pods are up sooner, and the last no
	// later. Starts that wait for something else than a processor hold up nobody for long.
	// Default: one more than the node has processors. -1: all are started at once.
	MaxStarts int
	// StartSideBySide starts the regular containers of a pod all at once, and not
	// in the order of the spec, each after the postStart handler of the one before.
	StartSideBySide bool

	// Log gets a line for each transition. Default silent.
	Log logr.Logger
}

// Syncer carries out what pods need. Its methods may be called concurrently for
// different pods; for one pod, one at a time.
type Syncer struct {
	config Config
	known  memories
	pace   *pace.Pace
}

// New returns a Syncer. It makes no call and starts nothing.
func New(c Config) (*Syncer, error) {
	for _, step := range []func() error{c.fromClient, c.fromRoot, c.require, c.setLimits} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	c.setDefaults()
	if _, err := c.newBackoff(false); err != nil {
		return nil, fmt.Errorf("syncpod: Config.FirstBackOff and MaxBackOff: %w", err)
	}
	s := &Syncer{config: c, pace: pace.New(c.MaxStarts, new(pace.Processors).Spare)}
	s.known.config = &s.config
	return s, nil
}

func (c *Config) require() error {
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"Runtime", c.Runtime == nil},
		{"RuntimeName", c.RuntimeName == ""},
		{"Statuses", c.Statuses == nil},
		{"Sandboxes", c.Sandboxes == nil},
		{"Images", c.Images == nil},
	} {
		if field.missing {
			return fmt.Errorf("syncpod: Config.%s is missing, and there is no Client to make it of", field.name)
		}
	}
	if c.Node.MemoryBytes < 0 {
		return fmt.Errorf("syncpod: Config.Node.MemoryBytes is %d, want 0 or more", c.Node.MemoryBytes)
	}
	return nil
}

// setLimits checks times and numbers, and puts defaults where they are missing.
func (c *Config) setLimits() error {
	for _, field := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"PostStartTimeout", &c.PostStartTimeout, 2 * time.Minute},
		{"StopPatience", &c.StopPatience, 30 * time.Second},
		{"CleanupTimeout", &c.CleanupTimeout, 10 * time.Second},
	} {
		if *field.value < 0 {
			return fmt.Errorf("syncpod: Config.%s is %v, want 0 or more", field.name, *field.value)
		}
		*field.value = cmp.Or(*field.value, field.def)
	}
	if c.MaxStarts < -1 {
		return fmt.Errorf("syncpod: Config.MaxStarts is %d, want -1 or more", c.MaxStarts)
	}
	c.MaxStarts = cmp.Or(c.MaxStarts, goruntime.NumCPU()+1)
	if c.ReservedTries < 0 {
		return errors.New("syncpod: Config.ReservedTries is negative")
	}
	c.ReservedTries = cmp.Or(c.ReservedTries, 3)
	return nil
}

// setDefaults puts a default where a part is missing that needs no Client.
func (c *Config) setDefaults() {
	if c.Node.MemoryBytes == 0 {
		c.Node.MemoryBytes = nodeMemory()
	}
	if c.Cgroups != nil {
		c.Clean = append(slices.Clone(c.Clean), CleanerFunc(c.Cgroups.RemoveCgroup))
	}
	if c.Sink == nil {
		c.Sink = nopSink{}
	}
	if c.Events == nil {
		c.Events = nopEvents{}
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	if c.Lifecycle == nil {
		c.Lifecycle = NopLifecycle{}
	}
	if c.Logs == nil {
		c.Logs = logFiles{}
	}
	if c.Hooks == nil {
		c.Hooks = noHooks{}
	}
}

func (c *Config) newBackoff(waitFirst bool) (*backoff.Backoff[backoffKey], error) {
	return backoff.New(backoff.Config[backoffKey]{Initial: c.FirstBackOff, Max: c.MaxBackOff, WaitFirst: waitFirst})
}
