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
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/internal/hook"
	"github.com/podsync/podsync/syncpod/resize"
)

// The interfaces below are what a Syncer needs of the rest of an agent. All of
// them are called concurrently for different pods, and nothing that is handed to
// them may be written to.

// StatusReader reads what the runtime has of a pod. A *cri.Reader does.
type StatusReader interface {
	// PodStatus returns what the runtime has of a pod, an empty status if nothing.
	// prev may be nil, or a status read before, of which what cannot have changed is
	// taken over.
	PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error)
	// SandboxStatus returns one sandbox, with its addresses.
	SandboxStatus(ctx context.Context, id string) (runtime.SandboxStatus, error)
}

// SandboxManager makes and ends sandboxes. A *sandbox.Runner does.
type SandboxManager interface {
	// Create makes and starts a sandbox. The attempt in config is the least one.
	Create(ctx context.Context, config *runtimeapi.PodSandboxConfig, runtimeHandler string) (sandbox.Created, error)
	// Stop stops a sandbox. One that is not there has stopped.
	Stop(ctx context.Context, id string) error
	// Unresolved reports whether a sandbox of the pod may yet come up, because its
	// creation was given up without a clear answer.
	Unresolved(pod types.UID) bool
	// Resolve removes those that have come up and would pass for the pod's sandbox,
	// which is keep, or none if that is empty.
	Resolve(ctx context.Context, pod types.UID, keep string) error
	// Forget drops what is remembered of a pod.
	Forget(pod types.UID)
}

// ImageManager makes sure that an image is there. An *image.Manager does.
type ImageManager interface {
	// EnsureImage pulls the image if its policy and the node ask for it. What it
	// returns is to be released once the container is created.
	EnsureImage(ctx context.Context, req image.Request) (*image.Image, error)
	// Forget drops the back-offs of a pod.
	Forget(pod types.UID)
}

// HookRunner runs the postStart and preStop handlers of containers. A *hook.Runner
// does. It must return when ctx ends, and its error must not hold what a command
// printed; its result is not used.
type HookRunner interface {
	Run(ctx context.Context, req hook.Request) (hook.Result, error)
}

// HookRunnerFunc is a function that is a [HookRunner].
type HookRunnerFunc func(ctx context.Context, req hook.Request) (hook.Result, error)

// Run calls f.
func (f HookRunnerFunc) Run(ctx context.Context, req hook.Request) (hook.Result, error) {
	return f(ctx, req)
}

// Probes knows the last results of probes.
type Probes interface {
	// ProbeResults returns those of a pod, by container. A container without an
	// entry has not been probed yet.
	ProbeResults(pod types.UID) map[runtime.ContainerID]actions.ProbeResults
}

// Admitter is a check that a pod has to pass before it runs, and as long as it
// runs. A pod that does not pass is reported as pending, its containers are
// stopped, and it is asked for again later. What is to be refused for good is
// not to come here at all: a Loop asks its Config.Admission before.
type Admitter interface {
	// AdmitPod returns nil for a pod that may run.
	AdmitPod(ctx context.Context, pod *v1.Pod) *Rejection
}

// AdmitterFunc is a function that is an [Admitter].
type AdmitterFunc func(ctx context.Context, pod *v1.Pod) *Rejection

// AdmitPod calls f.
func (f AdmitterFunc) AdmitPod(ctx context.Context, pod *v1.Pod) *Rejection { return f(ctx, pod) }

// Rejection is why a pod may not run. Reason and message are published in the pod's status. A
// pod that loop.Config.Admission rejects is Failed for good, and its published message begins
// with "Pod was rejected: ". A pod that an [Admitter] rejects is Pending, and is admitted later
// if the Admitter then returns nil.
type Rejection struct {
	// Reason is one word that programs act on.
	Reason string
	// Message says more to people.
	Message string
}

// Network says whether the node's network is ready for pods.
type Network interface {
	// NetworkReady returns nil, or what is missing.
	NetworkReady(ctx context.Context) error
}

// NetworkFunc is a function that is a [Network].
type NetworkFunc func(ctx context.Context) error

// NetworkReady calls f.
func (f NetworkFunc) NetworkReady(ctx context.Context) error { return f(ctx) }

// Cgroups makes the cgroups that pods' containers are in. A *tree.Tree does. If it is a
// [OrphanCleaner] besides, that is called for pods of which no more than the UID is known.
type Cgroups interface {
	// EnsureCgroup makes the cgroup of a pod, or brings it up to date, and returns
	// it as the runtime's cgroup driver wants it called. It is called whenever there is
	// work on a pod that may run.
	EnsureCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error)
	// RemoveCgroup removes it once the pod has stopped for good. One that is not
	// there has been removed.
	RemoveCgroup(ctx context.Context, pod *v1.Pod) error
}

// CgroupRaiser is an optional interface of [Cgroups]. It is called before containers are
// resized, and EnsureCgroup when they have been: limits go up from the pod to its
// containers, and down the other way (KEP-1287).
type CgroupRaiser interface {
	// RaiseCgroup raises the limits of a pod's cgroup and lowers none.
	RaiseCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error)
}

// Allocations says which resources a pod is allotted (KEP-1287). As a [Cleaner] it takes
// them back. If it is a [OrphanCleaner] besides, that is called for pods of which no more
// than the UID is known.
type Allocations interface {
	// Allot returns what a pod is allotted, with whatever it asks for now decided. It is
	// called whenever there is work on a pod that may run. While it fails nothing is done.
	Allot(ctx context.Context, pod *v1.Pod) (resize.Answer, error)
	// Allotted returns the pod as it is allotted by now, and decides nothing.
	Allotted(pod *v1.Pod) *v1.Pod
	Cleaner
}

// Devices gives containers devices of the node. As a [Cleaner] it takes them back. If it
// is a [OrphanCleaner] besides, that is called for pods of which no more than the UID is
// known.
type Devices interface {
	// Allot returns what a container is given. It is called before each creation of it,
	// and should answer the same for as long as the pod lives. While it fails the container
	// is not created. An error must not hold a value of a variable.
	Allot(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allotment, error)
	Cleaner
}

// MirrorClient keeps, for each static pod, the mirror pod that shows it to an API
// server. Its UID never is the identity of what runs.
type MirrorClient interface {
	// MirrorPod returns the mirror of a static pod, nil if it has none.
	MirrorPod(ctx context.Context, pod *v1.Pod) (*v1.Pod, error)
	// CreateMirrorPod makes it. One that is there already is no error.
	CreateMirrorPod(ctx context.Context, mirror *v1.Pod) error
	// DeleteMirrorPod deletes that mirror, by its UID, and no other of its name.
	DeleteMirrorPod(ctx context.Context, mirror *v1.Pod) error
}

// PullSecrets gets the secrets that a pod's images are pulled with, in the order
// of spec.imagePullSecrets. With an error, which says what is missing, come those
// that are there. The error becomes an event, and the pod goes on with those; it must not
// hold a secret. It is called by each SyncPod that starts something, which waits for it: it
// has no deadline of its own, and must return when ctx ends.
type PullSecrets interface {
	PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error)
}

// Preparer gets the node ready for a pod: directories, volumes. It is
// called by each SyncPod that starts something, before anything is made, and may
// say in the sandbox.Input what follows for the sandbox: its cgroup, user
// namespace, groups and resolver. Fields that the Syncer knows itself (Pod,
// Attempt, LogsRoot) are overwritten.
type Preparer interface {
	PreparePod(ctx context.Context, pod *v1.Pod) (sandbox.Input, error)
}

// PreparerFunc is a function that is a [Preparer].
type PreparerFunc func(ctx context.Context, pod *v1.Pod) (sandbox.Input, error)

// PreparePod calls f.
func (f PreparerFunc) PreparePod(ctx context.Context, pod *v1.Pod) (sandbox.Input, error) {
	return f(ctx, pod)
}

// Refresher keeps what the containers of a pod have mounted up to date: the files of
// ConfigMaps, Secrets and tokens. It is called at the end of each SyncPod of a pod
// that may run, and must return when ctx ends, which is after 5 s at most. An error
// becomes an event, and nothing else; it must not hold a secret.
type Refresher interface {
	// RefreshPod brings up to date what PreparePod has made. next is when to call it
	// again, zero if only a change of the pod is a reason to.
	RefreshPod(ctx context.Context, pod *v1.Pod) (next time.Time, err error)
}

// Mounter gives the mounts and devices of one container: volumes, /etc/hosts,
// the termination message file.
type Mounter interface {
	Mounts(ctx context.Context, req container.MountRequest) (container.Mounts, error)
}

// TerminationMessages reads the termination messages of containers.
type TerminationMessages interface {
	// TerminationMessage returns the termination message of a container that has exited: the
	// runtime's own, c.TerminationMessage, and after it the container's, from its
	// terminationMessagePath or its log. With an error it returns what there is.
	TerminationMessage(pod *v1.Pod, c *runtime.ContainerStatus) (string, error)
}

// Lifecycle is called around the life of each container, for managers of
// exclusive resources.
type Lifecycle interface {
	// PreCreate may change the configuration of a container before it is created.
	PreCreate(ctx context.Context, pod *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error
	// PreStart is called for a created container before it is started.
	PreStart(ctx context.Context, pod *v1.Pod, c *v1.Container, id runtime.ContainerID) error
	// Release is called for containers that exist and do not run, maybe often.
	Release(pod *v1.Pod, container string)
}

// DeviceReporter is an optional interface of [Devices], or else of a [Lifecycle]: it has given
// containers devices, and knows how they are (KEP-4680). If it has a method
// Notify(func(types.UID)), a loop.Loop calls that with what is to be told of pods whose devices
// have changed.
type DeviceReporter interface {
	// Devices returns the allocatedResourcesStatus of containers by name, those of a pod
	// without devices being none. It is asked with each status, and must return at once.
	Devices(pod *v1.Pod) map[string][]v1.ResourceStatus
}

// NopLifecycle is a [Lifecycle] that does nothing, to embed.
type NopLifecycle struct{}

// PreCreate does nothing.
func (NopLifecycle) PreCreate(context.Context, *v1.Pod, *v1.Container, *runtimeapi.ContainerConfig) error {
	return nil
}

// PreStart does nothing.
func (NopLifecycle) PreStart(context.Context, *v1.Pod, *v1.Container, runtime.ContainerID) error {
	return nil
}

// Release does nothing.
func (NopLifecycle) Release(*v1.Pod, string) {}

// Cleaner tidies the node up after a pod that has stopped for good: volumes,
// cgroups. It is called again until it succeeds.
type Cleaner interface {
	CleanPod(ctx context.Context, pod *v1.Pod) error
}

// OrphanCleaner is an optional interface of a [Cleaner]: it cleans up after a pod of which no
// more than the UID is known, because the pod was deleted while no agent ran. A
// *poddir.Dirs is one.
type OrphanCleaner interface {
	// RemovePod tidies up after a pod of which nothing runs. That there is nothing to
	// tidy up is no error.
	RemovePod(ctx context.Context, pod types.UID) error
}

// OrphanLister is an optional interface of an [OrphanCleaner]: it lists the pods for which it still
// holds state, so that leftovers are found after a restart of the agent. A *device.Keeper is one.
type OrphanLister interface {
	// KeptPods returns the pods of which something is kept. It is called when an agent begins,
	// and must return soon.
	KeptPods() ([]types.UID, error)
}

// CleanerFunc is a function that is a [Cleaner].
type CleanerFunc func(ctx context.Context, pod *v1.Pod) error

// CleanPod calls f.
func (f CleanerFunc) CleanPod(ctx context.Context, pod *v1.Pod) error { return f(ctx, pod) }

// ContainerLogs is where the logs of containers are. It knows which attempts have left
// some, so that numbers are not used twice when the runtime has forgotten them
// (kubernetes #99748).
type ContainerLogs interface {
	// MakeDirectory makes the directory of a container's logs, below that of the
	// pod's logs dir. Runtimes expect to find it.
	MakeDirectory(dir, container string) error
	// LastAttempt returns the highest attempt with a log below the pod's log
	// directory dir, and whether there is one.
	LastAttempt(dir, container string) (attempt uint32, ok bool, err error)
}
