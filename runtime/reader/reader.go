package reader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// Config configures a Reader.
type Config struct {
	// Runtime answers the list and status calls. A *cri.Client implements them. Required.
	Runtime Runtime
	// RuntimeName is the type in container IDs, as cri.Client.RuntimeName reports it.
	// Required.
	RuntimeName string
	// Owner selects the pods to read. Default: the pods that podsync created.
	Owner cri.Owner
}

// Runtime lists and inspects sandboxes and containers.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error)
	PodSandboxStatus(context.Context, *runtimeapi.PodSandboxStatusRequest, ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error)
}

// Reader reads pods from a runtime. It stores no pods: the caller passes the known status, so one
// Reader serves any concurrent callers.
type Reader struct {
	runtime Runtime
	name    string
	owner   cri.Owner
	// evented is set once a sandbox's status has contained its containers'. Runtimes that stream
	// events do this.
	evented atomic.Bool
}

// New returns a Reader. It makes no call.
func New(c Config) (*Reader, error) {
	if c.Runtime == nil {
		return nil, errors.New("reader: Config.Runtime is missing")
	}
	if err := runtime.CheckRuntimeName(c.RuntimeName); err != nil {
		return nil, fmt.Errorf("reader: Config.%w", err)
	}
	if err := c.Owner.Validate(); err != nil {
		return nil, err
	}
	return &Reader{runtime: c.Runtime, name: c.RuntimeName, owner: c.Owner}, nil
}

// PodStatus reads one pod. It makes two calls to list, and then one for each sandbox or container that is not in prev or
// has another state there; see Inspect. For a pod that the runtime does not have, it returns a status without sandboxes
// and containers.
func (r *Reader) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	if uid == "" {
		return nil, errors.New("reader: PodStatus: the pod's UID is empty")
	}
	began := time.Now()
	selector := map[string]string{runtime.LabelPodUID: string(uid)}
	maps.Copy(selector, r.owner.Selector())
	pods, err := r.list(ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("reader: list pod %s: %w", uid, err)
	}
	for _, p := range pods {
		if p.UID == uid {
			p.UID = uid // one string for all parts of the pod
			return r.Inspect(ctx, p, prev)
		}
	}
	return &runtime.PodStatus{UID: uid, ObservedAt: began}, nil
}

// SandboxStatus reads one sandbox, with one call.
func (r *Reader) SandboxStatus(ctx context.Context, id string) (runtime.SandboxStatus, error) {
	resp, err := r.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	switch {
	case err != nil:
		return runtime.SandboxStatus{}, fmt.Errorf("reader: sandbox %s: %w", id, cri.Classify(err))
	case resp.GetStatus() == nil:
		return runtime.SandboxStatus{}, fmt.Errorf("reader: %w", noStatus("sandbox", id))
	}
	return SandboxStatus(resp.GetStatus()), nil
}

// Inspect completes a listed pod to its status. It requests only the parts that the list and prev
// lack:
//
//   - a container that is not in prev, or has another state there;
//   - a ready sandbox that is not in prev, or was not ready there, or has no
//     address yet and should get one;
//   - the latest sandbox, if it is not in prev or has another state there. The
//     network of older sandboxes that are not ready is not needed; they are
//     reported as listed.
//
// If the runtime includes the statuses for a sandbox's containers in its response, they are not
// requested again.
//
// An object that is listed and then not found is left out (kubernetes #107670). Any other error is
// returned without a status. With a nil prev everything is read. prev is not modified; the result
// shares its parts.
func (r *Reader) Inspect(ctx context.Context, p *ListedPod, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	if p == nil {
		return nil, errors.New("reader: no ListedPod was passed to Inspect")
	}
	in := inspection{Reader: r, known: knownPod{prev}, answered: map[string]*runtimeapi.ContainerStatus{}}
	status := &runtime.PodStatus{UID: p.UID, Name: p.Name, Namespace: p.Namespace, ObservedAt: p.ObservedAt}
	var err error
	if status.Sandboxes, err = in.sandboxes(ctx, p); err != nil {
		return nil, fmt.Errorf("reader: inspect pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, err)
	}
	if status.Containers, err = in.containers(ctx, p, status.Sandboxes); err != nil {
		return nil, fmt.Errorf("reader: inspect pod %s/%s (%s): %w", p.Namespace, p.Name, p.UID, err)
	}
	return status, nil
}

// knownPod is an earlier status, nil if there is none. Pods have few sandboxes and containers, so a search is cheaper than
// an index.
type knownPod struct{ *runtime.PodStatus }

func (k knownPod) sandbox(id string) *runtime.SandboxStatus {
	if k.PodStatus == nil {
		return nil
	}
	for i := range k.Sandboxes {
		if s := &k.Sandboxes[i]; s.ID == id {
			return s
		}
	}
	return nil
}

func (k knownPod) container(id string) *runtime.ContainerStatus {
	if k.PodStatus == nil {
		return nil
	}
	for i := range k.Containers {
		if c := &k.Containers[i]; c.ID.ID == id {
			return c
		}
	}
	return nil
}

// count returns how many sandboxes and containers are known.
func (k knownPod) count() (sandboxes, containers int) {
	if k.PodStatus == nil {
		return 0, 0
	}
	return len(k.Sandboxes), len(k.Containers)
}

// unchangedSandbox returns a sandbox's known status if it is still valid and complete.
func (k knownPod) unchangedSandbox(s *runtimeapi.PodSandbox) *runtime.SandboxStatus {
	known := k.sandbox(s.GetId())
	if known == nil || known.State != sandboxState(s.GetState()) || awaitsAddress(known) {
		return nil
	}
	return known
}

func awaitsAddress(s *runtime.SandboxStatus) bool {
	return s.State == runtime.SandboxReady && s.NetworkMode != runtime.NamespaceNode && (s.Network == nil || len(s.Network.IPs) == 0)
}

func (k knownPod) unchangedContainer(c *runtimeapi.Container) *runtime.ContainerStatus {
	known := k.container(c.GetId())
	if known == nil || known.State != containerState(c.GetState()) {
		return nil
	}
	return known
}

// A runtime may learn that a container was killed because memory was short only after it has reported the exit, for which it
// sends no event (containerd #12372). So an exit by SIGKILL that was read within settleTime is read again with the next
// change to its pod.
const (
	killedExitCode = 137
	settleTime     = 10 * time.Second
)

// settledContainer returns a container's known status if it is still valid and will not change.
func (k knownPod) settledContainer(c *runtimeapi.Container) *runtime.ContainerStatus {
	known := k.unchangedContainer(c)
	if known != nil && known.State == runtime.ContainerExited && known.ExitCode == killedExitCode && k.ObservedAt.Sub(known.FinishedAt) < settleTime {
		return nil
	}
	return known
}
