// Package deps has the parts of a [github.com/podsync/podsync/syncpod.Syncer] and of a Loop that other packages of this module
// provide: package agent provides images, the cache and probes; package loop provides statuses, sandboxes and the sink;
// tests replace files and measurements. Programs cannot name these types, so they can change at any time.
package deps

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/store"
)

// Dependencies are parts of a Syncer. The Syncer creates the missing ones from the Client and the Root of its Config.
// All of them are called concurrently for different pods, and must not write to their arguments.
type Dependencies struct {
	// Statuses reads the runtime's status of a pod. Default: a *reader.Reader.
	Statuses Statuses
	// Sandboxes creates and stops sandboxes. Default: a *run.Runner.
	Sandboxes Sandboxes
	// Images ensures that images are present. Default: an *image.Manager.
	Images Images
	// Probes has the results of probes. Default: NoProbes.
	Probes Probes
	// Prepare prepares the node for a pod. Default: with a Root, a *poddir.Dirs; without, nothing is prepared.
	Prepare Preparer
	// Logs reports which attempts have logs. Default: the files below Node.LogsRoot.
	Logs Logs
	// Cache has the newest status of each pod, which the Loop keeps up to date. Default: one of the Loop's own.
	Cache *runtime.Cache
	// Records persists the state that must outlive the agent. Default: with a Root, files below it; without, nothing
	// outlives the agent.
	Records Records
	// Store persists the statuses that a Loop has reported. Default: with a Root, files below it; without, none.
	Store store.Store
	// Sink receives each status before the Sink of the Config. Default: that one, which gets a copy.
	Sink Sink
	// Stats measures the node for evictions. Default: the Stats of the Agent.
	Stats stats.Source
	// Clean are called once a pod has stopped for good, and again when it is removed. Default: with a Root, a
	// *poddir.Dirs, which removes the directories of the pod.
	Clean []Cleaner
}

// With returns a copy of d, which may be nil, that change has changed.
func (d *Dependencies) With(change func(*Dependencies)) *Dependencies {
	var changed Dependencies
	if d != nil {
		changed = *d
	}
	change(&changed)
	return &changed
}

// Statuses reads the runtime's status of a pod.
type Statuses interface {
	// PodStatus returns the runtime's status of a pod, an empty one if the runtime has nothing.
	// prev may be nil, or an earlier status, whose unchangeable parts are reused.
	PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error)
	// SandboxStatus returns one sandbox, with its addresses.
	SandboxStatus(ctx context.Context, id string) (runtime.SandboxStatus, error)
}

// Sandboxes creates and stops sandboxes.
type Sandboxes interface {
	// Create creates and starts a sandbox. The attempt in config is the lowest one that it may get.
	Create(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (run.Created, error)
	// Stop stops a sandbox. It succeeds if the sandbox does not exist.
	Stop(ctx context.Context, id string) error
	// Unresolved reports whether a sandbox of the pod may still be created, because the outcome of
	// a create call is unknown.
	Unresolved(pod types.UID) bool
	// Resolve removes sandboxes that were created late and could be mistaken for the pod's sandbox,
	// which is keep, or none if keep is empty.
	Resolve(ctx context.Context, pod types.UID, keep string) error
	// Forget drops the state of a pod.
	Forget(pod types.UID)
}

// Images ensures that images are present.
type Images interface {
	// EnsureImageExists pulls the image if its policy and the node require it. The caller must release
	// the result once the container is created.
	EnsureImageExists(ctx context.Context, req image.Request) (*image.Image, error)
	// Forget drops the back-offs of a pod.
	Forget(pod types.UID)
}

// Probes runs the probes of pods. Its methods must return soon.
type Probes interface {
	// ProbeResults returns the last results for a pod, by container. A container without an
	// entry has not been probed yet.
	ProbeResults(pod types.UID) map[runtime.ContainerID]actions.ProbeResults
	// Observe reports the spec and the state of a pod before each sync. While the pod terminates,
	// only its readiness is probed: no probe may stop its containers any more, and services need to
	// know which of them still serve (kubernetes #107473, #140882).
	Observe(pod *v1.Pod, status *runtime.PodStatus, terminating bool)
	// Forget is called when nothing of a pod runs or will run.
	Forget(pod types.UID)
}

// NoProbes are [Probes] that run none: a container with a startup or readiness probe is never ready.
type NoProbes struct{}

// ProbeResults returns no results.
func (NoProbes) ProbeResults(types.UID) map[runtime.ContainerID]actions.ProbeResults { return nil }

// Observe does nothing.
func (NoProbes) Observe(*v1.Pod, *runtime.PodStatus, bool) {}

// Forget does nothing.
func (NoProbes) Forget(types.UID) {}

// A Sink receives the status of a pod. It shares the status with the Syncer: neither modifies it.
type Sink interface {
	KeepPodStatus(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) error
}

// A Cleaner frees what the node keeps for a pod, such as directories and cgroups.
type Cleaner interface {
	// RemovePod succeeds if nothing is kept.
	RemovePod(ctx context.Context, pod types.UID) error
}

// Preparer prepares the node for a pod: directories, volumes.
type Preparer interface {
	// PreparePod is called by each SyncPod that starts something, before anything is created. The sandbox.Input
	// may describe the sandbox: its cgroup, user namespace, groups and resolver. The Syncer overwrites the fields
	// that it provides itself (Pod, Attempt, LogsRoot).
	PreparePod(ctx context.Context, pod *v1.Pod) (sandbox.Input, error)
}

// Logs has the logs of containers. It reports the attempts that have left a log, so that a number is not used twice
// after the runtime has lost its containers (kubernetes #99748).
type Logs interface {
	// MakeDirectory creates the directory of a container's logs below the pod's log directory dir.
	// Runtimes require it.
	MakeDirectory(dir, container string) error
	// LastAttempt returns the highest attempt with a log below the pod's log
	// directory dir, and whether there is one.
	LastAttempt(dir, container string) (attempt uint32, ok bool, err error)
}

// Records persist the state that must outlive the agent: one text of JSON for each pod. The methods are called
// concurrently for different pods, but LoadRecord and SaveRecord do not overlap for one pod; each has one second.
// Failures are logged and block nothing.
type Records interface {
	// LoadRecord returns the record of a pod, nil if there is none. After an error the Syncer does not save the
	// record until LoadRecord succeeds.
	LoadRecord(ctx context.Context, pod types.UID) ([]byte, error)
	// SaveRecord replaces the record of a pod.
	SaveRecord(ctx context.Context, pod types.UID, text []byte) error
	// DeleteRecord deletes the record of a pod. It succeeds if there is none.
	DeleteRecord(ctx context.Context, pod types.UID) error
	// ListRecords returns the pods that have a record.
	ListRecords(ctx context.Context) ([]types.UID, error)
}
