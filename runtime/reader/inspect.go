package reader

import (
	"context"
	"errors"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// inspection is one Reader.Inspect run.
type inspection struct {
	*Reader
	known knownPod
	// answered are the statuses for containers that were returned with their sandboxes, by
	// container ID.
	answered map[string]*runtimeapi.ContainerStatus
}

func (in *inspection) sandboxes(ctx context.Context, p *ListedPod) ([]runtime.SandboxStatus, error) {
	var all []runtime.SandboxStatus
	for i, listed := range p.sandboxes {
		if known := in.known.unchangedSandbox(listed); known != nil {
			all = append(all, *known)
			continue
		}
		if i > 0 && listed.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
			all = append(all, listedSandbox(listed))
			continue
		}
		status, err := in.askSandbox(ctx, listed.GetId())
		switch {
		case errors.Is(err, cri.ErrNotFound):
		case err != nil:
			return nil, err
		default:
			all = append(all, SandboxStatus(status))
		}
	}
	return all, nil
}

// askSandbox inspects a sandbox, and keeps the containers' statuses in the response.
func (in *inspection) askSandbox(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error) {
	resp, err := in.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		return nil, cri.Classify(err)
	}
	for _, c := range resp.GetContainersStatuses() {
		in.evented.Store(true)
		in.answered[c.GetId()] = c
	}
	if resp.GetStatus() == nil {
		return nil, noStatus("sandbox", id)
	}
	return resp.GetStatus(), nil
}

func (in *inspection) containers(ctx context.Context, p *ListedPod, sandboxes []runtime.SandboxStatus) ([]runtime.ContainerStatus, error) {
	if err := in.askTogether(ctx, p); err != nil {
		return nil, err
	}
	var all []runtime.ContainerStatus
	for _, listed := range p.containers {
		if known := in.known.settledContainer(listed); known != nil {
			all = append(all, *known)
			continue
		}
		status, err := in.askContainer(ctx, listed.GetId())
		switch {
		case errors.Is(err, cri.ErrNotFound):
		case err != nil:
			return nil, err
		default:
			all = append(all, ContainerStatus(status, in.name, shared(listed.GetPodSandboxId(), sandboxes)))
		}
	}
	return all, nil
}

// shared returns a sandbox's ID as the string in its status, if there is one, because a status is
// kept as long as its pod.
func shared(id string, sandboxes []runtime.SandboxStatus) string {
	for i := range sandboxes {
		if sandboxes[i].ID == id {
			return sandboxes[i].ID
		}
	}
	return id
}

// askTogether inspects a sandbox and not several containers in it, if the runtime returns container statuses with their
// sandbox.
func (in *inspection) askTogether(ctx context.Context, p *ListedPod) error {
	if !in.evented.Load() {
		return nil
	}
	changed := map[string]int{}
	for _, c := range p.containers {
		if in.known.settledContainer(c) == nil && in.answered[c.GetId()] == nil {
			changed[c.GetPodSandboxId()]++
		}
	}
	for _, s := range p.sandboxes {
		if changed[s.GetId()] < 2 {
			continue
		}
		if _, err := in.askSandbox(ctx, s.GetId()); err != nil && !errors.Is(err, cri.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (in *inspection) askContainer(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	if status := in.answered[id]; status != nil {
		return status, nil
	}
	resp, err := in.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, cri.Classify(err)
	}
	if resp.GetStatus() == nil {
		return nil, noStatus("container", id)
	}
	return resp.GetStatus(), nil
}

func noStatus(kind, id string) error {
	return &cri.Error{Class: cri.ErrUnknown, Err: fmt.Errorf("%s %s: the runtime answered without a status", kind, id)}
}
