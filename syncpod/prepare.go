package syncpod

import (
	"cmp"
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/lastknown"
	sandboxconfig "github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/volume"
)

// preparation prepares the node for a pod: cgroup, directories and volumes. It adds the results
// that the pod's sandbox needs to the sandbox's input.
type preparation struct {
	*observedPod
	sandbox *inUse
	changes bool // the resources of running containers will change
}

// run prepares the node. A failure is reported as an event, because it belongs to no container and
// so appears in no container status.
func (p *preparation) run(ctx context.Context) *StepError {
	if err := p.prepareNode(ctx); err != nil {
		return &StepError{Step: stepPrepare, Reason: ErrPreparePod, Err: err}
	}
	return nil
}

// suffices reports whether containers may start in the pod's sandbox with what was prepared for it, although err prevented an
// update. A container that mounts a volume that is lost does not start, because its mounts fail.
func (p *preparation) suffices(ctx context.Context, err error) bool {
	return p.sandbox.id != "" && lastknown.Suffices(ctx, lastknown.Made, err)
}

func (p *preparation) prepareNode(ctx context.Context) error {
	var cgroup string
	if p.config.Extensions.Cgroups != nil {
		var err error
		if cgroup, err = (podCgroup{p.observedPod}).ensureCgroup(ctx, p.sandbox.id != "", p.changes); err != nil && (p.changes || !p.suffices(ctx, err)) {
			return err
		}
	}
	if p.config.Parts.Prepare != nil {
		var err error
		if p.sandbox.input, err = p.config.Parts.Prepare.PreparePod(ctx, p.pod); err != nil {
			warnOfVolumes(ctx, p.observedPod, err)
			if len(volumeErrors(err)) == 0 || !p.suffices(ctx, err) {
				return err
			}
			p.sandbox.outdated = true
		}
	}
	if cgroup != "" {
		p.sandbox.input.CgroupParent = cgroup
	}
	if err := p.resolver(); err != nil {
		p.warn(ctx, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %v", err)
		return err
	}
	return nil
}

// warnOfVolumes records an event for each volume of the pod that cannot be created or updated, or for any other
// failure of the preparation.
func warnOfVolumes(ctx context.Context, o *observedPod, err error) {
	volumes := volumeErrors(err)
	switch {
	case errors.Is(err, poddir.ErrDirectory):
		o.warn(ctx, EventFailed, "error making pod data directories: %v", err)
	case len(volumes) == 0:
		o.warn(ctx, EventFailedMount, "Unable to attach or mount volumes: %v", err)
	}
	for _, failed := range volumes {
		o.warn(ctx, EventFailedMount, "%s failed for volume %q : %v", cmp.Or(failed.Operation, "MountVolume.SetUp"), failed.Volume, failed.Err)
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

// resolver adds the configuration of the pod's resolver, unless the runtime chooses it.
func (p *preparation) resolver() error {
	in, node := &p.sandbox.input, p.config.Node.dns()
	in.ClusterDomain = cmp.Or(in.ClusterDomain, node.ClusterDomain)
	unknown := len(node.Servers)+len(node.Searches)+len(node.Options)+len(node.ClusterServers) == 0
	if in.DNS != nil || unknown && p.pod.Spec.DNSConfig == nil && p.pod.Spec.DNSPolicy != v1.DNSNone {
		return nil
	}
	dns, warnings, err := sandboxconfig.GetPodDNS(p.pod, node)
	for _, warning := range warnings {
		if unknown && warning.Kind == sandboxconfig.ClusterDNSMissing {
			continue // the node has no cluster
		}
		p.eventf(podref.Pod(p.pod), v1.EventTypeWarning, warning.Reason(), "%s", warning)
	}
	in.DNS = dns
	return err
}
