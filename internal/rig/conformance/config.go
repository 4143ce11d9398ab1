package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
)

// configCase is a random pod and container, and the CRI messages that kubelet
// v1.36.2 created for it. The kubelet ran on cgroup v1. The record has no limits of huge pages and
// no unified cgroup settings.
type configCase struct {
	Name              string
	Pod               *v1.Pod
	Container         string
	Attempt           uint32
	RestartCount      uint32
	ImageRef          string
	ImageUID          *int64
	ImageUsername     string
	Hostname          string
	Domain            string
	CgroupParent      string
	DNS               [3][]string
	TargetContainerID string
	NodeMemoryBytes   int64
	CPUCFSQuota       bool
	SeccompDefault    bool
	PodLogsDir        string
	Options           configOptions

	WantSandbox, WantContainer           json.RawMessage
	WantSandboxError, WantContainerError bool
}

type configOptions struct {
	Envs    []env.Var
	Mounts  []configMount
	Devices []configDevice
}

type configDevice struct {
	ContainerPath, HostPath, Permissions string
}

type configMount struct {
	ContainerPath, HostPath string
	ReadOnly                bool
	Propagation             string
}

// checkConfig compares one recorded line of configurations with what podsync
// makes of the same input.
func checkConfig(line []byte) (outcome, error) {
	var c configCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("config: %w", err)
	}
	if c.Pod == nil || c.Name == "" {
		return outcome{}, errors.New("config: the line has no pod or no name")
	}
	input, err := c.container()
	if err != nil {
		return outcome{}, fmt.Errorf("config %s: %w", c.Name, err)
	}
	gotSandbox, sandboxErr := sandbox.GeneratePodSandboxConfig(c.sandbox())
	gotContainer, containerErr := container.GenerateContainerConfig(input)

	sandboxDiff, err := compare(gotSandbox, sandboxErr, c.WantSandbox, c.WantSandboxError)
	if err != nil {
		return outcome{}, fmt.Errorf("config %s: wantSandbox: %w", c.Name, err)
	}
	containerDiff, err := compare(gotContainer, containerErr, c.WantContainer, c.WantContainerError)
	if err != nil {
		return outcome{}, fmt.Errorf("config %s: wantContainer: %w", c.Name, err)
	}
	o := outcome{name: c.Name}
	if sandboxDiff != "" && sandboxErr == nil && !c.WantSandboxError {
		// What a pod deviates by besides is judged without the ports.
		without, err := sandbox.GeneratePodSandboxConfig(c.withoutSidecarPorts())
		if err != nil {
			return outcome{}, fmt.Errorf("config %s: %w", c.Name, err)
		}
		if !proto.Equal(without, gotSandbox) {
			gotSandbox, o.deviation = without, sidecarPorts
			if sandboxDiff, err = compare(without, nil, c.WantSandbox, false); err != nil {
				return outcome{}, fmt.Errorf("config %s: wantSandbox: %w", c.Name, err)
			}
		}
	}
	if sandboxDiff != "" && c.Pod.Spec.SecurityContext == nil && sandboxErr == nil && !c.WantSandboxError {
		rest, err := compare(withoutNamespaces(gotSandbox), nil, c.WantSandbox, false)
		if err != nil {
			return outcome{}, fmt.Errorf("config %s: wantSandbox: %w", c.Name, err)
		}
		if rest == "" {
			o.deviation, sandboxDiff = nilIsEmpty, ""
		}
	}
	o.diff = titled("sandbox", sandboxDiff) + titled("container", containerDiff)
	return o, nil
}

// nilIsEmpty is the rule of sandboxes of pods without a security context. The API server stores no such pod.
const nilIsEmpty = "S9: a pod without a security context has its namespaces"

// sidecarPorts is the rule of the host ports of sidecars.
const sidecarPorts = "S10: host ports of sidecars are mapped"

// withoutSidecarPorts reverts the effect of sidecarPorts.
func (c *configCase) withoutSidecarPorts() sandbox.Input {
	in := c.sandbox()
	in.Pod = in.Pod.DeepCopy()
	for i := range in.Pod.Spec.InitContainers {
		in.Pod.Spec.InitContainers[i].Ports = nil
	}
	return in
}

// withoutNamespaces reverts the effect of nilIsEmpty.
func withoutNamespaces(config *runtimeapi.PodSandboxConfig) *runtimeapi.PodSandboxConfig {
	without := proto.CloneOf(config)
	without.Linux.SecurityContext.NamespaceOptions = nil
	return without
}

func titled(title, diff string) string {
	if diff == "" {
		return ""
	}
	return title + ":\n" + diff
}

func (c *configCase) sandbox() sandbox.Input {
	return sandbox.Input{
		Pod:          c.Pod,
		Attempt:      c.Attempt,
		Hostname:     sandbox.Hostname{Host: c.Hostname, Domain: c.Domain},
		DNS:          &runtimeapi.DNSConfig{Servers: c.DNS[0], Searches: c.DNS[1], Options: c.DNS[2]},
		CgroupParent: c.CgroupParent,
		NoCPUQuota:   !c.CPUCFSQuota,
		LogsRoot:     c.PodLogsDir,
	}
}

func (c *configCase) container() (container.Input, error) {
	mounts, err := c.Options.mounts()
	if err != nil {
		return container.Input{}, err
	}
	return container.Input{
		Pod:      c.Pod,
		Name:     c.Container,
		Attempt:  c.RestartCount,
		Image:    container.Image{Ref: c.ImageRef, UID: c.ImageUID, Username: c.ImageUsername},
		Env:      c.Options.Envs,
		Mounts:   mounts,
		Devices:  c.Options.devices(),
		TargetID: c.TargetContainerID,
		Node: container.Node{
			MemoryBytes:    c.NodeMemoryBytes,
			NoCPUQuota:     !c.CPUCFSQuota,
			SeccompDefault: c.SeccompDefault,
		},
	}, nil
}

func (o *configOptions) mounts() ([]*runtimeapi.Mount, error) {
	var mounts []*runtimeapi.Mount
	for _, m := range o.Mounts {
		propagation, ok := runtimeapi.MountPropagation_value[m.Propagation]
		if !ok {
			return nil, fmt.Errorf("options.mounts: propagation %q is not known", m.Propagation)
		}
		mounts = append(mounts, &runtimeapi.Mount{
			ContainerPath: m.ContainerPath,
			HostPath:      m.HostPath,
			Readonly:      m.ReadOnly,
			Propagation:   runtimeapi.MountPropagation(propagation),
		})
	}
	return mounts, nil
}

func (o *configOptions) devices() []*runtimeapi.Device {
	var devices []*runtimeapi.Device
	for _, d := range o.Devices {
		devices = append(devices, &runtimeapi.Device{
			ContainerPath: d.ContainerPath,
			HostPath:      d.HostPath,
			Permissions:   d.Permissions,
		})
	}
	return devices
}

// compare returns how an answer differs from the recorded one, a message in
// protojson or an error. Its own error is that the recorded one cannot be read.
func compare[T any, M interface {
	*T
	proto.Message
}](got M, gotErr error, want json.RawMessage, wantErr bool) (string, error) {
	if gotErr != nil || wantErr {
		return compareErrors(gotErr, wantErr), nil
	}
	recorded := M(new(T))
	if err := protojson.Unmarshal(want, recorded); err != nil {
		return "", err
	}
	if proto.Equal(recorded, got) {
		return "", nil
	}
	return sideBySide(compareTrees("", tree(recorded), tree(got))), nil
}

func compareErrors(got error, want bool) string {
	switch {
	case got != nil && want:
		return ""
	case got != nil:
		return sideBySide([]row{{"error", "none", got.Error()}})
	}
	return sideBySide([]row{{"error", "one", "none"}})
}

// tree is a message as JSON values, which can be walked without its type.
func tree(m proto.Message) any {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error()
	}
	return v
}
