package syncpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/volume"
)

// prepare gets the node ready for the pod: cgroup, directories, volumes, and the
// secrets to pull with. What fails is told: no container's status could.
func (w *work) prepare(ctx context.Context) *StepError {
	if err := w.prepareNode(ctx); err != nil {
		return &StepError{Step: StepPrepare, Reason: ErrPreparePod, Err: err}
	}
	w.getPullSecrets(ctx)
	return nil
}

func (w *work) prepareNode(ctx context.Context) error {
	var cgroup string
	if w.config.Extensions.Cgroups != nil {
		var err error
		if cgroup, err = w.ensureCgroup(ctx); err != nil {
			return err
		}
	}
	if w.config.Deps.Prepare != nil {
		var err error
		if w.sandbox.input, err = w.config.Deps.Prepare.PreparePod(ctx, w.pod); err != nil {
			w.tellUnprepared(ctx, err)
			return err
		}
	}
	if cgroup != "" {
		w.sandbox.input.CgroupParent = cgroup
	}
	if err := w.resolver(); err != nil {
		w.warn(ctx, eventFailedCreateSandbox, "Failed to create pod sandbox: %v", err)
		return err
	}
	return nil
}

// tellUnprepared tells which of the pod's volumes cannot be made, each in an event of
// its own, or what else is missing.
func (w *work) tellUnprepared(ctx context.Context, err error) {
	volumes := volumeErrors(err)
	switch {
	case errors.Is(err, poddir.ErrDirectory):
		w.warn(ctx, eventFailed, "error making pod data directories: %v", err)
	case len(volumes) == 0:
		w.warn(ctx, eventFailedMount, "Unable to attach or mount volumes: %v", err)
	}
	for _, failed := range volumes {
		w.warn(ctx, eventFailedMount, "MountVolume.SetUp failed for volume %q : %v", failed.Volume, failed.Err)
	}
}

// volumeErrors returns the errors of volumes that err joins.
func volumeErrors(err error) (all []*volume.Error) {
	switch e := err.(type) {
	case *volume.Error:
		return []*volume.Error{e}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, volumeErrors(one)...)
		}
	case interface{ Unwrap() error }:
		return volumeErrors(e.Unwrap())
	}
	return all
}

// resolver adds the configuration of the pod's resolver, where that is not left
// to the runtime.
func (w *work) resolver() error {
	in, node := &w.sandbox.input, w.config.Node.DNS
	in.ClusterDomain = cmp.Or(in.ClusterDomain, node.ClusterDomain)
	unknown := len(node.Servers)+len(node.Searches)+len(node.Options)+len(node.ClusterServers) == 0
	if in.DNS != nil || unknown && w.pod.Spec.DNSConfig == nil && w.pod.Spec.DNSPolicy != v1.DNSNone {
		return nil
	}
	dns, warnings, err := sandbox.DNS(w.pod, node)
	for _, warning := range warnings {
		if unknown && warning.Kind == sandbox.ClusterDNSMissing {
			continue // there is no cluster to speak of
		}
		w.eventf(aboutPod(w.pod), v1.EventTypeWarning, warning.Reason(), "%s", warning)
	}
	in.DNS = dns
	return err
}

// getPullSecrets gets the secrets. That some are missing is told, and does not
// keep the pod from running: its images may be there, or be open to all.
func (w *work) getPullSecrets(ctx context.Context) {
	if w.config.Objects.PullSecrets == nil {
		return
	}
	secrets, err := w.config.Objects.PullSecrets.PullSecrets(ctx, w.pod)
	if err != nil && ctx.Err() == nil {
		w.eventf(aboutPod(w.pod), v1.EventTypeWarning, eventNoPullSecret, "Unable to retrieve some image pull secrets: %v; attempting to pull the image may not succeed.", err)
	}
	w.sandbox.secrets = secrets
}

// checkMounts makes sure that a container gets all that its spec mounts. Nothing
// runs without its volumes, whatever part it is that does not know them.
func checkMounts(c *v1.Container, m container.Mounts) error {
	for _, want := range c.VolumeMounts {
		at := path.Join("/", want.MountPath)
		if !slices.ContainsFunc(m.Mounts, func(got *runtimeapi.Mount) bool { return path.Join("/", got.GetContainerPath()) == at }) {
			return fmt.Errorf("container %q mounts volume %q at %s, which nothing on this node provides", c.Name, want.Name, want.MountPath)
		}
	}
	for _, want := range c.VolumeDevices {
		if !slices.ContainsFunc(m.Devices, func(got *runtimeapi.Device) bool { return got.GetContainerPath() == want.DevicePath }) {
			return fmt.Errorf("container %q uses volume %q as the device %s, which nothing on this node provides", c.Name, want.Name, want.DevicePath)
		}
	}
	return nil
}
