package syncpod

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/container"
)

// resizeAll changes the resources of running containers in place (KEP-1287).
func (w *work) resizeAll(ctx context.Context) {
	if w.config.Updater == nil {
		return
	}
	for _, step := range w.plan.Resize {
		if err := w.resize(ctx, step); err != nil {
			w.fail(&StepError{Step: StepResize, Reason: ErrResizeContainer, Container: step.Container, Err: err})
		}
	}
}

func (w *work) resize(ctx context.Context, step actions.ResizeStep) error {
	config, err := container.Config(container.Input{
		Pod: w.pod, Name: step.Container.Name, Node: w.config.Node, UserNamespace: w.in.input.UserNamespace,
	})
	if err != nil {
		return err
	}
	_, err = w.config.Updater.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: step.ID.ID, Linux: config.GetLinux().GetResources(),
	})
	return cri.Classify(err)
}
