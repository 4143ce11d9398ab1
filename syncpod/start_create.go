package syncpod

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	containerstart "github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/memory"
)

// creating creates a container.
type creating struct{ *start }

// create creates the container.
func (st creating) create(ctx context.Context, images imageResult) *StepError {
	attempt, err := st.attempt(st.startStep)
	if err != nil {
		return &StepError{Step: stepConfig, Reason: errCreateContainerConfig, Err: fmt.Errorf("attempts in the logs: %w", err)}
	}
	st.warnOfSecondRun()
	config, err := st.configure(ctx, images, attempt)
	if err != nil {
		return &StepError{Step: stepConfig, Reason: errCreateContainerConfig, Err: err}
	}
	if err := st.config.Parts.Logs.MakeDirectory(st.sandbox.config.GetLogDirectory(), st.spec.Name); err != nil {
		return &StepError{Step: stepCreate, Reason: errCreateContainer, Err: fmt.Errorf("directory of the logs: %w", err)}
	}
	if hooks := st.config.Extensions.Lifecycle; hooks != nil {
		if err := hooks.PreCreateContainer(ctx, st.pod, st.spec, config); err != nil {
			return &StepError{Step: stepCreate, Reason: errPreCreateHook, Err: err}
		}
	}
	id, err := st.syncer.runner.Create(ctx, containerstart.Request{
		SandboxID: st.sandbox.id, Sandbox: st.sandbox.config, Config: config, Attempts: attemptsOf{&st.observedPod}, Log: st.log(st.pod),
	})
	if err != nil {
		return &StepError{Step: stepCreate, Reason: errCreateContainer, Err: images.explain(err)}
	}
	st.id, st.madeAttempt = runtime.ContainerID{Type: st.config.RuntimeName, ID: id}, attempt
	st.memory.do(func(p *memory.Pod) {
		p.Containers.Used(st.spec.Name, attempt)
		p.Instances.SetResources(id, runtime.ResourcesOf(&st.pod.Spec, st.spec))
	})
	st.event(v1.EventTypeNormal, EventCreated, "Container created")
	return nil
}

func (st creating) configure(ctx context.Context, images imageResult, attempt uint32) (*runtimeapi.ContainerConfig, error) {
	img := images.image
	found := container.Image{Ref: img.ID, UID: img.UID, Username: img.Username}
	if err := container.VerifyRunAsNonRoot(st.pod, st.spec, found); err != nil {
		return nil, err
	}
	var secrets []string
	vars, err := env.MakeEnvironment(ctx, env.Input{
		Pod: st.pod, Container: st.spec.Name, OnSecret: func(value string) { secrets = append(secrets, value) },
		PodIPs: st.sandbox.ips, HostIPs: st.config.Node.hostIPs(), Allocatable: st.config.Node.Allocatable, FileKey: st.config.Parts.FileKey,
	}, st.memory.known(st.config.Objects.Sources))
	st.memory.secrets.add(st.spec.Name, secrets)
	if err != nil {
		return nil, err
	}
	given, err := st.devices(ctx)
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	vars = withDevices(given, vars)
	var mounts container.Mounts
	if st.config.Parts.Mounts != nil {
		req := container.MountRequest{Pod: st.pod, Container: st.spec, Attempt: attempt, Env: vars, PodIPs: st.sandbox.ips, Images: images.ids(), RuntimeHandler: st.sandbox.handler}
		if mounts, err = st.config.Parts.Mounts.Mounts(ctx, req); err != nil {
			return nil, fmt.Errorf("mounts: %w", err)
		}
		st.mounts.release = mounts.Release
		st.memory.setMounts(st.spec.Name, startMounts{})
	}
	if err := checkMounts(st.spec, mounts); err != nil {
		if st.config.Parts.Mounts == nil {
			err = fmt.Errorf("%w (no Config.Root is set)", err)
		}
		return nil, err
	}
	if err := container.CheckRecorded(&st.pod.Spec, st.spec.Name); err != nil {
		return nil, err
	}
	return container.GenerateContainerConfig(container.Input{
		Pod: st.pod, Name: st.spec.Name, Attempt: attempt,
		Image: found, Env: vars,
		Mounts:     slices.Concat(criMounts(given), mounts.Mounts),
		Devices:    slices.Concat(criDevices(given), mounts.Devices),
		CDIDevices: slices.Concat(criCDIDevices(given), mounts.CDIDevices), Annotations: images.annotate(merged(given.Annotations, mounts.Annotations)),
		TargetID: st.targetID(), UserNamespace: st.sandbox.input.UserNamespace, ExtraGroups: st.sandbox.input.ExtraGroups,
		Labels: st.config.Owner.Mark(nil), Node: st.config.Node.Containers,
	})
}

// chooseDevices chooses the devices of a container before its image is pulled, so that its status reports them during the pull.
func chooseDevices(ctx context.Context, devices Devices, pod *v1.Pod, spec *v1.Container) {
	if devices != nil {
		_ = devices.Choose(ctx, pod, spec) // Allocate returns the same error later
	}
}

// devices returns the container's allocation of the node's devices.
func (st creating) devices(ctx context.Context) (device.Allocation, error) {
	if st.config.Extensions.Devices == nil {
		return device.Allocation{}, nil
	}
	return st.config.Extensions.Devices.Allocate(ctx, st.pod, st.spec)
}

// merged returns a map with the entries of both. For a key of both maps, the second one counts.
func merged(first, second map[string]string) map[string]string {
	if len(first) == 0 {
		return second
	}
	all := maps.Clone(first)
	maps.Copy(all, second)
	return all
}

// ids returns the IDs of the images that are mounted, by the name of the volume.
func (r imageResult) ids() map[string]string {
	var ids map[string]string
	for name, img := range r.volumes {
		if ids == nil {
			ids = map[string]string{}
		}
		ids[name] = img.ID
	}
	return ids
}

// annotate adds the mounted images: the runtime's lists of containers do not contain them, and
// image garbage collection needs them.
func (r imageResult) annotate(annotations map[string]string) map[string]string {
	if len(r.volumes) == 0 {
		return annotations
	}
	with := maps.Clone(annotations)
	if with == nil {
		with = map[string]string{}
	}
	with[runtime.AnnotationImageVolumes] = strings.Join(slices.Compact(slices.Sorted(maps.Values(r.ids()))), " ")
	return with
}

// explain adds to an error of the runtime that the container mounts images. A runtime without
// support mistakes such a mount for a directory without a name.
func (r imageResult) explain(err error) error {
	if len(r.volumes) == 0 {
		return err
	}
	volumes := slices.Sorted(maps.Keys(r.volumes))
	return fmt.Errorf("%w (it mounts images, as the volumes %s: a runtime that knows no such mounts, such as containerd before 2.1, cannot make it)", err, strings.Join(volumes, ", "))
}

// targetID returns the container whose processes an ephemeral container sees.
func (st creating) targetID() string {
	if st.Container.Kind != actions.EphemeralContainer {
		return ""
	}
	target := st.status.Latest(st.pod.Spec.EphemeralContainers[st.Container.Index].TargetContainerName)
	if target == nil || target.State != runtime.ContainerRunning {
		return ""
	}
	return target.ID.ID
}

// attemptsOf are the attempts of a pod's containers, for the Runner that creates them.
type attemptsOf struct{ *observedPod }

// Used notes that an attempt was given up.
func (o attemptsOf) Used(ctx context.Context, container string, attempt uint32, persist bool) {
	o.memory.used(container, attempt)
	if persist {
		o.record(ctx)
	}
}

// NameReserved counts a refusal of a name.
func (o attemptsOf) NameReserved(container string) bool {
	return ask(o.memory, func(p *memory.Pod) bool {
		return p.Containers.NameReserved(container, containerstart.NameReservedRetries)
	})
}
