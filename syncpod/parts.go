package syncpod

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/poddir"
)

// Parts are the parts from which a Syncer is made. New creates the missing ones from the Client and the Root of the
// Config, so a program sets only those that it replaces or shares: package agent sets Images and Probes, and package
// loop Statuses, Sandboxes and StatusKeeper.
//
// The Syncer calls all parts concurrently for different pods. They must not modify their arguments.
type Parts struct {
	// Statuses reads the runtime's status of a pod. Default: a *reader.Reader.
	Statuses StatusReader
	// Sandboxes creates and stops sandboxes. Default: a *run.Runner.
	Sandboxes Sandboxes
	// Images ensures that images are present. Default: an *image.Manager.
	Images Images
	// Probes returns probe results. Default: NoProbes.
	Probes Probes
	// Hooks runs postStart and preStop handlers. It must return when its context ends. Its error must not contain a
	// command's output. Default: a *handler.Runner.
	Hooks lifecycle.Hooks
	// Prepare prepares the node for a pod. Default: with a Root, a *poddir.Dirs; without, nothing is prepared.
	Prepare Preparer
	// Refresh updates ConfigMaps' files, Secrets and tokens in pod volumes. Default: the *poddir.Dirs if Prepare is
	// also the default; otherwise nothing is refreshed.
	Refresh Refresher
	// Volumes sets up the volumes of pods below the Root, for the default Prepare. Default: a *local.Volumes.
	Volumes poddir.Volumes
	// Mounts returns a container's mounts. Default: with a Root, a *poddir.Dirs; without, a container that
	// mounts a volume does not start.
	Mounts Mounter
	// Messages reads termination messages. Default: with a Root, a *poddir.Dirs; without, only the runtime's own
	// messages are reported.
	Messages TerminationMessages
	// FileKey reads variables from files in the volumes of pods (KEP-3721). Default: with a Root, the files below it;
	// without, a container with such a variable does not start.
	FileKey func(ctx context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error)
	// Logs reports which attempts have logs. Default: the files below Node.LogsRoot.
	Logs Logs
	// Records persists the state that must outlive the agent. Default: with a Root, FileRecords below it; without,
	// nothing outlives the agent.
	Records Records
	// StatusKeeper receives each status in place of the Sink of the Config, which New does not call then. Default: the
	// Sink, which gets a copy.
	StatusKeeper StatusKeeper
	// Clean is called once a pod has stopped for good, and again when it is removed, after the Extensions. Default:
	// with a Root, a *poddir.Dirs, which removes the pod's directories.
	Clean []Cleaner
}

// StatusReader reads the runtime's status of a pod.
type StatusReader interface {
	// PodStatus returns the runtime's status of a pod, an empty one if the runtime has nothing.
	// prev may be nil, or an earlier status, whose unchangeable parts are reused.
	PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error)
	// SandboxStatus returns one sandbox, with its addresses.
	SandboxStatus(ctx context.Context, id string) (runtime.SandboxStatus, error)
}

// Sandboxes creates and stops sandboxes. If it has the methods CancelPending and Wait of a *run.Runner, a Loop calls
// them when it ends.
type Sandboxes interface {
	// Create creates and starts a sandbox. The attempt in config is the lowest one that it may get.
	Create(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (run.Created, error)
	// Stop stops a sandbox. It succeeds if the sandbox does not exist.
	Stop(ctx context.Context, id string) error
	// Unresolved reports whether a pod sandbox may still be created, because a create call's
	// outcome is unknown.
	Unresolved(pod types.UID) bool
	// Resolve removes sandboxes that were created late and could be mistaken for the pod's sandbox,
	// which is keep, or none if keep is empty.
	Resolve(ctx context.Context, pod types.UID, keep string) error
	// Forget drops a pod's state.
	Forget(pod types.UID)
}

// Images ensures that images are present.
type Images interface {
	// EnsureImageExists pulls the image if its policy and the node require it. The Syncer releases
	// the result once the container is created.
	EnsureImageExists(ctx context.Context, req image.Request) (*image.Image, error)
	// Forget drops a pod's back-offs.
	Forget(pod types.UID)
}

// Probes runs pod probes. Its methods must return soon.
type Probes interface {
	// ProbeResults returns the last results for a pod, by container. A container without an
	// entry has not been probed yet.
	ProbeResults(pod types.UID) map[runtime.ContainerID]actions.ProbeResults
	// Observe reports a pod's spec and state before each sync. A Loop calls it; the Syncer calls it only during a SyncPod
	// that takes long, with each newer status. While the pod terminates, only its readiness is probed: no probe may stop its
	// containers any more, and services need to know which of them still serve (kubernetes #107473, #140882).
	Observe(pod *v1.Pod, status *runtime.PodStatus, terminating bool)
	// Forget is called by a Loop when nothing of a pod runs or will run.
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

// Preparer prepares the node for a pod: directories, volumes.
type Preparer interface {
	// PreparePod is called by each SyncPod that starts something, before anything is created. The sandbox.Input
	// may describe the sandbox: its cgroup, user namespace, groups and resolver. The Syncer overwrites the fields
	// that it provides itself (Pod, Attempt, LogsRoot).
	PreparePod(ctx context.Context, pod *v1.Pod) (sandbox.Input, error)
}

// Refresher updates the mounted files of ConfigMaps, Secrets and tokens. SyncPod calls it at its end for each pod that
// may run. It must return when ctx ends, after at most 5 s. An error only becomes an event; it must not contain a
// secret.
type Refresher interface {
	// RefreshPod updates the files that PreparePod has created. next is when to call it again, zero if it need not be called
	// before the pod changes.
	RefreshPod(ctx context.Context, pod *v1.Pod) (next time.Time, err error)
}

// Mounter provides the mounts and devices of one container: volumes, /etc/hosts, the termination message file.
type Mounter interface {
	Mounts(ctx context.Context, req container.MountRequest) (container.Mounts, error)
}

// TerminationMessages reads the termination container messages.
type TerminationMessages interface {
	// TerminationMessage returns the termination message from a container that has exited: the
	// runtime's own, c.TerminationMessage, and after it the container's, from its
	// terminationMessagePath or its log. With an error it returns the part that it could read.
	TerminationMessage(pod *v1.Pod, c *runtime.ContainerStatus) (string, error)
}

// Logs reports the attempts that have left a log, so that a number is not used twice
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
	// LoadRecord returns a pod's record, nil if there is none. After an error the Syncer does not save the
	// record until LoadRecord succeeds.
	LoadRecord(ctx context.Context, pod types.UID) ([]byte, error)
	// SaveRecord replaces a pod's record.
	SaveRecord(ctx context.Context, pod types.UID, text []byte) error
	// DeleteRecord deletes a pod's record. It succeeds if there is none.
	DeleteRecord(ctx context.Context, pod types.UID) error
	// ListRecords returns the pods that have a record.
	ListRecords(ctx context.Context) ([]types.UID, error)
}

// StatusKeeper receives a pod's status, as a [StatusSink] does, but without a copy: it shares the status with the
// Syncer, and neither modifies it.
type StatusKeeper interface {
	KeepPodStatus(ctx context.Context, pod *v1.Pod, status *v1.PodStatus) error
}

// Cleaner frees what the node keeps for a pod, such as directories and cgroups.
type Cleaner interface {
	// RemovePod succeeds if nothing is kept.
	RemovePod(ctx context.Context, pod types.UID) error
}
