package syncpod

import (
	"cmp"
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/poddir"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/volume"
)

// devicesPause is the pause before the devices of a pod are prepared again. It does not grow, and a change of the devices ends it,
// because the driver may come at any time.
const devicesPause = 10 * time.Second

// inUse is the sandbox that containers are started in.
type inUse struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	handler string
	// input is the sandbox's configuration input, including groups and the user namespace, which
	// containers share.
	input sandbox.Input
	// ips are the pod's addresses, the primary first.
	ips []string
	// secrets gets the image pull secrets.
	secrets pullSecrets
}

// replacedKey is the back-off key of replacements of a pod's sandbox for one reason. A sandbox that needs a replacement for
// the reason for the last one would otherwise be replaced in each sync, without an error and without end.
func replacedKey(why actions.Reason) memory.Key {
	return memory.Key{Resources: "replaced: " + why.String()}
}

// useSandbox gets the pod a sandbox, the one it has or a new one, which it reports. changes means that the resources of running
// containers will change.
func (s *Syncer) useSandbox(ctx context.Context, d *decision, done outcome, changes bool) outcome {
	sb := &inUse{}
	if !d.plan.Sandbox.Create {
		sb.id = d.plan.Sandbox.ID
	} else {
		d.memory.needRecord()
		d.memory.Record(ctx)
	}
	made, failed := s.prepare(ctx, d, sb.id != "", changes)
	done.memoryInUse, done.outdated = made.memoryInUse, made.outdated
	if failed == nil {
		sb.input = made.input
		failed = s.configureSandbox(ctx, d, sb)
	}
	if failed == nil && d.plan.Sandbox.Create {
		done, failed = s.createSandbox(ctx, d, done, sb)
	}
	if failed != nil {
		d.memory.delayRetry(ctx, sandboxKey, failed)
		done.fail(failed)
		return done
	}
	d.memory.succeeded(sandboxKey)
	done.sandbox = sb
	return done
}

// configureSandbox computes the sandbox's configuration. An existing sandbox keeps its own; the containers need this one.
func (s *Syncer) configureSandbox(ctx context.Context, d *decision, sb *inUse) *StepError {
	in := &sb.input
	in.Pod, in.Attempt, in.LogsRoot = d.pod, d.plan.Sandbox.Attempt, s.config.Node.LogsRoot
	in.NoCPUQuota, in.CPUPeriod = s.config.Node.Containers.NoCPUQuota || d.facts.exclusiveCPUs(), s.config.Node.Containers.CPUPeriod
	var err error
	if sb.handler, err = s.handler(ctx, d, sb.id); err != nil {
		return s.notConfigured(ctx, d.pod, err, err)
	}
	if namespaces := s.config.Extensions.UserNamespaces; namespaces != nil {
		if in.UserNamespace, err = namespaces.UserNamespace(ctx, d.pod, sb.handler); err != nil {
			return s.notConfigured(ctx, d.pod, err, err)
		}
	}
	config, err := sandbox.GeneratePodSandboxConfig(*in)
	if err != nil {
		return s.notConfigured(ctx, d.pod, err, cmp.Or(errors.Unwrap(err), err)) // an event names its pod
	}
	config.Labels = s.config.Owner.Mark(config.Labels)
	sb.config, sb.id, sb.ips = config, d.plan.Sandbox.ID, s.podIPs(d.pod, d.status)
	return nil
}

// handler returns the runtime handler for the pod. The sandbox of a pod with a runtime class shows it, whatever has become
// of the class since then.
func (s *Syncer) handler(ctx context.Context, d *decision, sandboxID string) (string, error) {
	class := d.pod.Spec.RuntimeClassName
	for i := range d.status.Sandboxes {
		if sb := &d.status.Sandboxes[i]; class != nil && *class != "" && sandboxID != "" && sb.ID == sandboxID {
			return sb.RuntimeHandler, nil
		}
	}
	return sandbox.LookupRuntimeHandler(ctx, d.pod, s.config.Objects.RuntimeClasses)
}

// notConfigured reports that the sandbox's configuration cannot be computed.
func (s *Syncer) notConfigured(ctx context.Context, pod *v1.Pod, err, cause error) *StepError {
	s.warn(ctx, pod, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %v", cause)
	return &StepError{Step: stepSandbox, Reason: errConfigPodSandbox, Err: err}
}

// createSandbox creates the sandbox, and reports it.
func (s *Syncer) createSandbox(ctx context.Context, d *decision, done outcome, sb *inUse) (outcome, *StepError) {
	failure := func(err error) *StepError {
		return &StepError{Step: stepSandbox, Reason: errCreatePodSandbox, Err: err}
	}
	release, err := s.pace.Take(ctx, sandboxPriority)
	if err != nil {
		return done, failure(err)
	}
	defer release()
	began := time.Now()
	created, err := s.config.Parts.Sandboxes.Create(ctx, sb.config, sb.handler)
	err = d.memory.secrets.redactError(err) // it may be about containers in sandboxes that were to be removed
	s.config.Observer.SandboxCreated(d.pod, time.Since(began), err)
	if err != nil {
		s.warn(ctx, d.pod, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %s", withoutIDs(err, idNames(d.status)...))
		return done, failure(err)
	}
	s.log(d.pod).Info("sandbox created", "sandboxID", created.ID, "attempt", created.Attempt)
	sb.id, sb.config.Metadata.Attempt = created.ID, created.Attempt
	var replaced *StepError
	if d.plan.Sandbox.ID != "" {
		replaced = failure(replacedAgain(d.plan.Sandbox.Reason))
	}
	d.memory.sandboxMade(created.ID, replacedKey(d.plan.Sandbox.Reason), replaced)

	status := runtime.SandboxStatus{ID: created.ID, State: runtime.SandboxReady, Attempt: created.Attempt, NetworkMode: runtime.NamespaceNode}
	if !d.pod.Spec.HostNetwork {
		if status, err = s.config.Parts.Statuses.SandboxStatus(ctx, created.ID); err != nil {
			s.warn(ctx, d.pod, EventFailedPodSandBoxStatus, "Unable to get pod sandbox status: %s", withoutIDs(err, created.ID, "of the pod"))
			return done, failure(err)
		}
	}
	done.status = withSandbox(done.status, status)
	sb.ips = s.podIPs(d.pod, done.status)
	s.reportPod(ctx, d, &done, d.facts.failed)
	if !d.pod.Spec.HostNetwork && status.Network != nil && len(sb.ips) == 0 {
		d.memory.awaitAddress(status.ID)
		s.warnNoAddress(ctx, d.pod)
		return done, failure(errNoAddress)
	}
	return done, nil
}

// replacedAgain is the error of a sandbox that waits for its replacement because the last one had the same reason.
type replacedAgain actions.Reason

func (e replacedAgain) Error() string {
	return "the sandbox was replaced before, because " + actions.Reason(e).String() + ", and must be replaced again"
}

// withSandbox returns a status that has the sandbox.
func withSandbox(status *runtime.PodStatus, sb runtime.SandboxStatus) *runtime.PodStatus {
	with := *status
	with.Sandboxes = []runtime.SandboxStatus{sb}
	for _, other := range status.Sandboxes {
		if other.ID != sb.ID {
			with.Sandboxes = append(with.Sandboxes, other)
		}
	}
	return &with
}

// podIPs returns the addresses of the sandbox, or of the node for a pod in the node's network.
func (s *Syncer) podIPs(pod *v1.Pod, status *runtime.PodStatus) []string {
	if pod.Spec.HostNetwork {
		return s.config.Node.hostIPs()
	}
	return status.IPs()
}

// prepared is the result of the preparation of the node.
type prepared struct {
	input       sandbox.Input
	memoryInUse *StepError
	// outdated is set if volumes could not be updated.
	outdated bool
}

// prepare prepares the node for a pod: cgroup, directories and volumes. exists means that the pod has a sandbox. Then containers
// may start in it with what was prepared for it, although an update fails; a container that mounts a volume that is lost does
// not start, because its mounts fail. A failure is reported as an event, because it belongs to no container and so appears in no
// container status.
func (s *Syncer) prepare(ctx context.Context, d *decision, exists, changes bool) (made prepared, failed *StepError) {
	failure := func(err error) *StepError { return &StepError{Step: stepPrepare, Reason: ErrPreparePod, Err: err} }
	suffices := func(err error) bool { return exists && lastknown.Suffices(ctx, lastknown.Made, err) }
	var parent string
	var err error
	if s.config.Extensions.Cgroups != nil {
		parent, made.memoryInUse, err = s.ensureCgroup(ctx, d, exists, changes)
		if err != nil && (changes || !suffices(err)) {
			return made, failure(err)
		}
	}
	if s.config.Parts.Prepare != nil {
		if made.input, err = s.config.Parts.Prepare.PreparePod(ctx, d.pod); err != nil {
			s.warnOfVolumes(ctx, d.pod, err)
			if len(volumeErrors(err)) == 0 || !suffices(err) {
				return made, failure(err)
			}
			made.outdated = true
		}
	}
	if devices, ok := s.config.Extensions.Devices.(PodDevices); ok && !exists {
		if err := devices.PreparePod(ctx, d.pod); err != nil {
			s.warn(ctx, d.pod, EventFailedPrepareDynamicResources, "Failed to prepare dynamic resources: %v", err)
			failed := failure(err)
			failed.NotBefore = time.Now().Add(devicesPause)
			return made, failed
		}
	}
	if parent != "" {
		made.input.CgroupParent = parent
	}
	if err := s.addResolver(d.pod, &made.input); err != nil {
		s.warn(ctx, d.pod, EventFailedCreatePodSandBox, "Failed to create pod sandbox: %v", err)
		return made, failure(err)
	}
	return made, nil
}

// warnOfVolumes records an event for each volume of the pod that cannot be created or updated, or for any other
// failure of the preparation.
func (s *Syncer) warnOfVolumes(ctx context.Context, pod *v1.Pod, err error) {
	volumes := volumeErrors(err)
	switch {
	case errors.Is(err, poddir.ErrDirectory):
		s.warn(ctx, pod, EventFailed, "error making pod data directories: %v", err)
	case len(volumes) == 0:
		s.warn(ctx, pod, EventFailedMount, "Unable to attach or mount volumes: %v", err)
	}
	for _, failed := range volumes {
		s.warn(ctx, pod, EventFailedMount, "%s failed for volume %q : %v", cmp.Or(failed.Operation, "MountVolume.SetUp"), failed.Volume, failed.Err)
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

// addResolver adds the configuration of the pod's resolver, unless the runtime chooses it.
func (s *Syncer) addResolver(pod *v1.Pod, in *sandbox.Input) error {
	node := s.config.Node.dns()
	in.ClusterDomain = cmp.Or(in.ClusterDomain, node.ClusterDomain)
	unknown := len(node.Servers)+len(node.Searches)+len(node.Options)+len(node.ClusterServers) == 0
	if in.DNS != nil || unknown && pod.Spec.DNSConfig == nil && pod.Spec.DNSPolicy != v1.DNSNone {
		return nil
	}
	dns, warnings, err := sandbox.GetPodDNS(pod, node)
	for _, warning := range warnings {
		if unknown && warning.Kind == sandbox.ClusterDNSMissing {
			continue // the node has no cluster
		}
		s.eventf(podref.Pod(pod), v1.EventTypeWarning, warning.Reason(), "%s", warning)
	}
	in.DNS = dns
	return err
}
