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
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/resize"
)

// Parts are the parts from which a Syncer is made. New creates the missing ones from the Client and the Root of the
// Config, so a program sets only those that it replaces or shares: package agent sets Images and Probes, and package
// loop Statuses, Sandboxes, Newest and StatusKeeper.
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
	// Refresh updates the files that pod volumes have from ConfigMaps, Secrets and tokens. Default: the *poddir.Dirs if Prepare is
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
	// Newest returns the newest definition of a pod, nil if it is unknown: a SyncPod that takes long follows it. The program
	// must call PodChanged after each change. Default: a SyncPod keeps the definition that it was called with.
	Newest func(pod types.UID) *v1.Pod
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
	// Unresolved reports whether a sandbox of the pod may still appear, because the outcome of a
	// create call is unknown.
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

// TerminationMessages reads the termination messages of containers.
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

// The interfaces below are the parts of an agent that a Syncer calls. It calls them concurrently for
// different pods. They must not modify their arguments.

// ContainerLifecycle is called at the points of a container's life at which a kubelet calls its internal lifecycle. Managers
// of CPUs, memory, devices and accounts implement it. Each call ends with its context.
type ContainerLifecycle interface {
	// PreCreateContainer is called before each container is created, once its configuration is complete. It may change
	// config, which is what the runtime gets. After an error the container is not created, with the reason
	// PreCreateHookError, and the call is repeated after a back-off.
	PreCreateContainer(ctx context.Context, pod *v1.Pod, container *v1.Container, config *runtimeapi.ContainerConfig) error
	// PreStartContainer is called after a container is created, and before it is started, with the ID that the runtime
	// has given it. After an error the container is not started, with the reason PreStartHookError; the start is repeated
	// after a back-off with another container.
	PreStartContainer(ctx context.Context, pod *v1.Pod, container *v1.Container, id string) error
	// PreStopContainer is called before a started container is stopped, before its preStop handler: at least once, and
	// again if the stop is repeated. It is not called for a container that exits by itself. pod is nil if its spec is
	// unknown. An error is logged, and prevents nothing.
	PreStopContainer(ctx context.Context, pod *v1.Pod, container, id string) error
	// PostStopContainer is called after a container has stopped, or was found to have exited: at least once, after an
	// error again in the pod's next sync, and again by the next agent if the runtime still has the container. A
	// container from an earlier agent is included. A container that the runtime loses at once is not. pod is nil if
	// its spec is unknown. An error is logged, and prevents nothing.
	PostStopContainer(ctx context.Context, pod *v1.Pod, container, id string) error
}

// Admitter is a check that a pod must pass before it runs and while it runs. A pod that does not
// pass is reported as pending, its containers are stopped, and the check is repeated later. Reject
// a pod permanently before it is synced: a Loop calls its Config.Admission for that.
type Admitter interface {
	// AdmitPod returns nil if the pod may run.
	AdmitPod(ctx context.Context, pod *v1.Pod) *Rejection
}

// Rejection is why a pod may not run. Reason and message are published in the pod's status. A
// pod that agent.Config.Admission rejects is Failed for good, and its published message begins
// with "Pod was rejected: ". A pod that an [Admitter] rejects is Pending, and is admitted later
// if the Admitter then returns nil.
type Rejection struct {
	// Reason is one word that programs match.
	Reason string
	// Message is the explanation for people.
	Message string
}

// Network reports whether the node's network is ready for pods.
type Network interface {
	// NetworkReady returns nil, or why the network is not ready.
	NetworkReady(ctx context.Context) error
}

// Cgroups manages pod cgroups. A *tree.Tree implements it.
type Cgroups interface {
	// EnsureCgroup creates or updates a pod's cgroup, and returns its name in the form of the runtime's
	// cgroup driver. It is called in each sync of a pod that may run.
	EnsureCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error)
	// RaiseCgroup raises the limits for a pod's cgroup and lowers none. It is called before containers are resized,
	// and EnsureCgroup afterwards: limits go up from the pod to its containers, and down the other way (KEP-1287).
	RaiseCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error)
	// RemovePod frees a pod's cgroup. It succeeds if there is nothing to free. It is called when the pod has stopped for good,
	// until it succeeds, and again when the pod is removed. For a pod that was deleted while no agent ran, it is called only
	// then.
	RemovePod(ctx context.Context, pod types.UID) error
	// PodsCgroup returns the path of the cgroup of all pods in each of the kernel's trees, such as /kubepods, "" if there
	// is none. The signal allocatableMemory.available is read there.
	PodsCgroup() string
}

// Allocations decides which resources are allocated to a pod (KEP-1287).
type Allocations interface {
	// Allocate decides on a resize that the pod requests, if there is one, and returns the allocation. It is called in
	// each sync of a pod that may run. If it fails, the sync does nothing else.
	Allocate(ctx context.Context, pod *v1.Pod) (resize.Answer, error)
	// Allocated returns the pod with its allocated resources, without a new decision.
	Allocated(pod *v1.Pod) *v1.Pod
	// Notify passes a function that requests a sync of a pod. It is called once, before any other method.
	Notify(changed func(pod types.UID))
	// RemovePod frees a pod's resources, when [Cgroups].RemovePod would be called. It succeeds if there is nothing to free.
	RemovePod(ctx context.Context, pod types.UID) error
}

// Devices allocates devices of the node to containers. A *device.Keeper implements all but the allocation itself, and can be embedded.
type Devices interface {
	// Allocate returns a container's devices. It is called before each creation of the container, and should return the
	// same devices as long as the pod exists. If it fails, the Syncer does not create the container. An error must not
	// contain a value of a variable.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allocation, error)
	// Choose chooses the devices that Allocate returns later, if it can do so without waiting. It is called before the
	// container's image is pulled, so that statuses report the devices during the pull. Errors of Choose are ignored,
	// because Allocate reports them again.
	Choose(ctx context.Context, pod *v1.Pod, container *v1.Container) error
	// Devices returns allocatedResourcesStatus by container name (KEP-4680), none for a pod without
	// devices. It is called for each status, and must return immediately.
	Devices(pod *v1.Pod) map[string][]v1.ResourceStatus
	// KeptPods returns the pods that have devices, so that the devices of pods that were deleted while no agent ran are
	// freed. It is called at an agent's start, and must return soon.
	KeptPods() ([]types.UID, error)
	// Notify stores a function to call for each pod whose devices have changed. It is called once, before any other method.
	Notify(changed func(pod types.UID))
	// RemovePod frees a pod's devices, when [Cgroups].RemovePod would be called. It succeeds if there is nothing to free.
	RemovePod(ctx context.Context, pod types.UID) error
}

// PodDevices may be implemented by [Devices] that a driver prepares on the node before the sandbox of a pod is created, such as
// those of resource claims.
type PodDevices interface {
	// PreparePod is called before each creation of a sandbox. After an error nothing of the pod is created, an event with the
	// error is recorded, and the call is repeated after 10 s, or once the function of Notify is called. It must return when ctx ends.
	PreparePod(ctx context.Context, pod *v1.Pod) error
	// UnpreparePod is called when nothing of the pod runs any more, before its end is reported: after that its claims may
	// be allocated to others. After an error the call is repeated, and the end is not reported. RemovePod is called nevertheless.
	UnpreparePod(ctx context.Context, pod types.UID) error
}

// CPUSets decides on which CPUs and with which memory containers run. A *pinning.Manager implements it.
type CPUSets interface {
	// Admit gives a new pod its exclusive CPUs and memory, or returns why it cannot have them. A Loop calls it before its
	// Admission, for the same pods, and calls RemovePod if that rejects the pod. A pod that has them already keeps them.
	Admit(pod *v1.Pod) *Rejection
	// CPUSet returns the CPUs and the memory nodes of a container. It is called in each sync of a pod that may run, for each
	// container, and must return immediately. A container without CPUs of its own may have others after each Notify.
	CPUSet(pod *v1.Pod, container string) runtime.CPUSet
	// Starting is called before a container is created: init containers before it have ended, unless they are sidecars.
	Starting(pod *v1.Pod, container string)
	// KeptPods returns the pods that have exclusive CPUs or memory, so that those of pods that were deleted while no agent ran
	// are freed. It is called at an agent's start.
	KeptPods() ([]types.UID, error)
	// Notify stores a function to call when the CPUs of containers of any pod have changed. It is called once, before any other
	// method. The function returns at once, and calls no method.
	Notify(changed func())
	// RemovePod frees what a pod has, when [Cgroups].RemovePod would be called. It succeeds if there is nothing to free.
	RemovePod(ctx context.Context, pod types.UID) error
}

// UserNamespaces allocates IDs of the node to pods with user namespaces of their own (KEP-127).
type UserNamespaces interface {
	// UserNamespace returns the ID mapping of a pod, nil for a pod in the node's user namespace. It is called before a
	// sandbox or container is created, with the runtime handler for the pod, and must return the same mapping as long as
	// the pod exists. If it fails, no part of the pod is started.
	UserNamespace(ctx context.Context, pod *v1.Pod, handler string) (*runtimeapi.UserNamespace, error)
	// RemovePod frees the IDs of a pod, when [Cgroups].RemovePod would be called. It succeeds if there is nothing to free.
	RemovePod(ctx context.Context, pod types.UID) error
}

// PullSecrets returns a pod's image pull secrets, in the order of spec.imagePullSecrets. With an
// error, which names the missing ones, it returns the existing ones. The error becomes an event,
// and the pod continues with these; the error must not contain a secret. It is called when an image
// must be pulled, or was pulled with credentials and is new to the pod. The start waits for it: it has
// no deadline of its own, and must return when ctx ends.
type PullSecrets interface {
	PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error)
}

// ImagePullSecrets may be implemented by a PullSecrets that looks credentials up for each image. It then is called in place of
// PullSecrets, so that nothing is looked up for the images of the pod that need no credentials.
type ImagePullSecrets interface {
	PullSecretsFor(ctx context.Context, pod *v1.Pod, image string) ([]v1.Secret, error)
}
