package start

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/deadline"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/creation"
)

// NameReservedRetries is how often a container's creation may be rejected because its name is reserved, without a
// listed container, until [Attempts] should use the next number.
const NameReservedRetries = 3

// DefaultCleanupTimeout bounds the calls after a lost answer.
const DefaultCleanupTimeout = time.Minute

// Runtime is the part of CRI that a Runner calls. A *cri.Client implements it.
type Runtime interface {
	CreateContainer(context.Context, *runtimeapi.CreateContainerRequest, ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error)
	StartContainer(context.Context, *runtimeapi.StartContainerRequest, ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
}

// Disposer stops and removes a container. A *lifecycle.Stopper implements it.
type Disposer interface {
	// Dispose stops a container, whatever its state, and removes it.
	Dispose(ctx context.Context, id string) error
}

// Attempts are the numbers of a pod's containers. They grow, and must not be used twice.
type Attempts interface {
	// Used notes that an attempt was given up, or may be used by a request that this agent does not see the end of. The next
	// container with that name has a higher number. It persists that for the next agent if persist is set.
	Used(ctx context.Context, container string, attempt uint32, persist bool)
	// NameReserved counts a refusal of the container's name while no listed container has it, and reports whether there
	// were NameReservedRetries of them.
	NameReserved(container string) (enough bool)
}

// Config configures a Runner.
type Config struct {
	// Runtime creates and starts the containers. Required.
	Runtime Runtime
	// Disposer removes a container that has the name of the requested one. Required.
	Disposer Disposer
	// Owner selects this agent's containers. Default: the agent "podsync".
	Owner cri.Owner
	// CleanupTimeout bounds the calls after a lost answer, which continue after the end of the caller's context. Default
	// DefaultCleanupTimeout.
	CleanupTimeout time.Duration
}

// A Runner creates and starts containers. Create it with New.
type Runner struct{ config Config }

// New returns a Runner. It makes no call.
func New(c Config) (*Runner, error) {
	switch {
	case c.Runtime == nil:
		return nil, errors.New("container/start: Config.Runtime is missing")
	case c.Disposer == nil:
		return nil, errors.New("container/start: Config.Disposer is missing")
	case c.CleanupTimeout < 0:
		return nil, errors.New("container/start: Config.CleanupTimeout is negative")
	}
	if err := c.Owner.Validate(); err != nil {
		return nil, fmt.Errorf("container/start: Config.Owner: %w", err)
	}
	if c.CleanupTimeout == 0 {
		c.CleanupTimeout = DefaultCleanupTimeout
	}
	return &Runner{c}, nil
}

// A Request is a container to create.
type Request struct {
	// SandboxID is the ready sandbox, and Sandbox the configuration that it was created from. Required.
	SandboxID string
	Sandbox   *runtimeapi.PodSandboxConfig
	// Config is the container's configuration. Its labels need the owner's mark. Required.
	Config *runtimeapi.ContainerConfig
	// Attempts are the pod's container attempts. Required.
	Attempts Attempts
	// Log receives a line for a container that is adopted, and for an attempt that is given up. Default: no log.
	Log logr.Logger
}

// Create creates a container, and returns its ID. The error has a class of package cri. The caller retries after a back-off.
func (r *Runner) Create(ctx context.Context, req Request) (id string, err error) {
	for again := false; ; again = true {
		resp, err := r.config.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: req.SandboxID, Config: req.Config, SandboxConfig: req.Sandbox,
		})
		switch {
		case err == nil && resp.GetContainerId() == "":
			return "", cri.Classify(errors.New("the runtime answered without a container ID"))
		case err == nil:
			return resp.GetContainerId(), nil
		case !cri.Ambiguous(err):
			return "", cri.Classify(err)
		}
		id, retry, resolveErr := r.resolve(ctx, req, cri.Classify(err))
		if resolveErr != nil || id != "" {
			return id, resolveErr
		}
		if !retry || again {
			return "", cri.Classify(err)
		}
	}
}

// resolve lists the container that holds the name. It adopts the requested one, and stops and removes any other one, after
// which the request is retried.
func (r *Runner) resolve(ctx context.Context, req Request, cause error) (id string, retry bool, err error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.CleanupTimeout)
	defer cancel()
	name, attempt := req.Config.GetMetadata().GetName(), req.Config.GetMetadata().GetAttempt()
	found, err := creation.Lookup[runtimeapi.Container]{
		List: func(ctx context.Context) ([]*runtimeapi.Container, error) { return r.holders(ctx, req) },
		Fits: func(listed []*runtimeapi.Container) *runtimeapi.Container {
			if len(listed) == 1 && req.created(listed[0]) {
				return listed[0]
			}
			return nil
		},
		Remove: func(bounded context.Context, listed []*runtimeapi.Container, kept *runtimeapi.Container) error {
			if len(listed) > 0 && deadline.Over(ctx) { // the next agent may repeat the request
				req.Attempts.Used(ctx, name, attempt, true)
			}
			for _, c := range listed {
				if c == kept {
					continue
				}
				if err := r.config.Disposer.Dispose(bounded, c.GetId()); err != nil {
					return err
				}
			}
			return nil
		},
	}.Resolve(bounded, func() bool { return !deadline.Over(ctx) })
	switch {
	case err != nil:
		return "", false, errors.Join(cause, err)
	case found.Adopted != nil:
		req.Log.Info("adopting the container of a lost answer", "container", name)
		return found.Adopted.GetId(), false, nil
	case !found.Removed:
		r.countReserved(ctx, req, cause)
	}
	return "", found.Removed, nil
}

// holders returns the container with the requested name, as a list of one or none.
func (r *Runner) holders(ctx context.Context, req Request) ([]*runtimeapi.Container, error) {
	labels := req.Config.GetLabels()
	selector := map[string]string{runtime.LabelPodUID: labels[runtime.LabelPodUID], runtime.LabelContainerName: labels[runtime.LabelContainerName]}
	maps.Copy(selector, r.config.Owner.Selector())
	resp, err := r.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", cri.Classify(err))
	}
	for i, c := range resp.GetContainers() {
		if r.config.Owner.Owns(c.GetLabels()) && c.GetMetadata().GetAttempt() == req.Config.GetMetadata().GetAttempt() {
			return resp.GetContainers()[i : i+1], nil
		}
	}
	return nil, nil
}

// created reports whether a container is the requested one: created for the same sandbox and spec, and not started yet.
func (req Request) created(c *runtimeapi.Container) bool {
	return c.GetPodSandboxId() == req.SandboxID && c.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED &&
		c.GetAnnotations()[runtime.AnnotationHash] == req.Config.GetAnnotations()[runtime.AnnotationHash]
}

// countReserved gives up an attempt whose name stays reserved without a listed container. CRI-O does not reject the
// request; it blocks until the caller's deadline.
func (r *Runner) countReserved(ctx context.Context, req Request, cause error) {
	if deadline.Over(ctx) || !creation.NameTaken(cause) && !errors.Is(cause, cri.ErrDeadline) {
		return
	}
	name, attempt := req.Config.GetMetadata().GetName(), req.Config.GetMetadata().GetAttempt()
	if !req.Attempts.NameReserved(name) {
		return
	}
	req.Log.Info("container name stays reserved with nothing listed, going on to the next attempt", "container", name, "attempt", attempt)
	req.Attempts.Used(ctx, name, attempt, false)
}

// Start starts a created container. After a nil error it runs, or has run. After an error for which cri.Ambiguous is true it
// may still start; after any other error it does not. The error has a class of package cri.
func (r *Runner) Start(ctx context.Context, id string) error {
	_, err := r.config.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	if err == nil {
		return nil
	}
	err = cri.Classify(err)
	if cri.Ambiguous(err) && ctx.Err() == nil && r.runs(ctx, id) {
		return nil
	}
	return err
}

func (r *Runner) runs(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, r.config.CleanupTimeout)
	defer cancel()
	resp, err := r.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: id}})
	if err != nil {
		return false // the start has already failed, and the caller inspects the container
	}
	for _, c := range resp.GetContainers() {
		if c.GetId() == id {
			return c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
		}
	}
	return false
}
