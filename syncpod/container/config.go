package container

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/container/env"
)

// Input is the input for [GenerateContainerConfig].
type Input struct {
	// Pod is the pod, required.
	Pod *v1.Pod
	// Name names one among the pod's init, regular or ephemeral containers. Required.
	Name string
	// Attempt counts the containers with this name in the pod, from 0: the restart count. It is in the
	// log path and in the name that the runtime reserves, so it must increase.
	Attempt uint32

	// Image is the image to run.
	Image Image
	// Env are the variables, in order; see package env. References $(NAME) in command and args also use
	// them.
	Env []env.Var
	// Mounts, Devices and CDIDevices are passed to the runtime unchanged, except that a pod's
	// mounts in a user namespace get its ID mapping.
	Mounts     []*runtimeapi.Mount
	Devices    []*runtimeapi.Device
	CDIDevices []*runtimeapi.CDIDevice
	// TargetID is the runtime's ID for the container whose processes an ephemeral container can
	// see (targetContainerName). "" means none. It has no effect in a pod whose containers share a
	// process namespace.
	TargetID string
	// UserNamespace is the ID mapping for the pod's sandbox. Required if spec.hostUsers is false.
	UserNamespace *runtimeapi.UserNamespace
	// CPUSet determines on which CPUs and with which memory the container runs. With exclusive CPUs it gets no CPU quota.
	CPUSet runtime.CPUSet
	// ExtraGroups are supplemental groups that the pod's volumes need.
	ExtraGroups []int64

	// Labels and Annotations are added, for example the owning agent's label, or a device
	// plugin's annotations for the runtime. They do not replace podsync's.
	Labels, Annotations map[string]string

	// Node describes the node.
	Node Node
}

// Image is a container's image on the node.
type Image struct {
	// Ref is the image's ID or digest, which is passed to the runtime. "" means the image in the
	// spec.
	Ref string
	// UID and Username are the user in the image's configuration. With neither, the image runs as
	// root; with both, UID applies.
	UID      *int64
	Username string
}

// GenerateContainerConfig returns a container's configuration. An error names the invalid field in the pod or the input; it
// may wrap [ErrRunAsNonRoot].
func GenerateContainerConfig(in Input) (*runtimeapi.ContainerConfig, error) {
	if in.Pod == nil {
		return nil, errors.New("container: Input.Pod is required")
	}
	config, err := in.config()
	if err != nil {
		return nil, fmt.Errorf("container %q of pod %s/%s: %w", in.Name, in.Pod.Namespace, in.Pod.Name, err)
	}
	return config, nil
}

func (in *Input) config() (*runtimeapi.ContainerConfig, error) {
	if in.Node.MemoryBytes <= 0 {
		return nil, errors.New("Input.Node.MemoryBytes is required")
	}
	c, err := runtime.FindContainer(in.Pod, in.Name)
	if err != nil {
		return nil, err
	}
	logPath, err := LogPath(in.Name, in.Attempt)
	if err != nil {
		return nil, err
	}
	annotations, err := in.annotations(c)
	if err != nil {
		return nil, err
	}
	signal, err := stopSignal(c.Lifecycle)
	if err != nil {
		return nil, err
	}
	linux, err := in.linux(c)
	if err != nil {
		return nil, err
	}
	command, args, err := in.process(c)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: in.Name, Attempt: in.Attempt},
		Image:       in.Image.spec(c),
		Command:     command,
		Args:        args,
		WorkingDir:  c.WorkingDir,
		Envs:        keyValues(in.Env),
		Mounts:      mapped(in.Mounts, linux.GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()),
		Devices:     slices.Clone(in.Devices),
		CDIDevices:  slices.Clone(in.CDIDevices),
		Labels:      in.labels(),
		Annotations: annotations,
		LogPath:     logPath,
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  signal,
		Linux:       linux,
	}, nil
}

// spec returns both the resolved image and the requested one, which CRI-O requires.
func (i *Image) spec(c *v1.Container) *runtimeapi.ImageSpec {
	ref := i.Ref
	if ref == "" {
		ref = c.Image
	}
	return &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: c.Image}
}

// process returns the command and the arguments with expanded variables. The kernel's limits for a process apply to
// them together with the environment.
func (in *Input) process(c *v1.Container) (command, args []string, err error) {
	var budget env.Budget
	for _, v := range in.Env {
		if err := budget.Add(len(v.Name) + len("=") + len(v.Value)); err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
	}
	lookup := env.Lookup(in.Env)
	if command, err = expandAll("command", c.Command, &budget, lookup); err == nil {
		args, err = expandAll("args", c.Args, &budget, lookup)
	}
	return command, args, err
}

func expandAll(field string, list []string, budget *env.Budget, lookup func(string) (string, bool)) ([]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	expanded := make([]string, len(list))
	for i, s := range list {
		value, ok := env.Expand(s, budget.Left(), lookup)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, budget.TooLong())
		}
		if err := budget.Add(len(value)); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		expanded[i] = value
	}
	return expanded, nil
}

func keyValues(vars []env.Var) []*runtimeapi.KeyValue {
	kvs := make([]*runtimeapi.KeyValue, len(vars))
	for i, v := range vars {
		kvs[i] = &runtimeapi.KeyValue{Key: v.Name, Value: []byte(v.Value)}
	}
	return kvs
}

func stopSignal(l *v1.Lifecycle) (runtimeapi.Signal, error) {
	if l == nil || l.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT, nil
	}
	// The API's SIGRTMIN+1 is SIGNAL_SIGRTMINPLUS1 in CRI.
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*l.StopSignal))
	number, ok := runtimeapi.Signal_value["SIGNAL_"+name]
	if !ok {
		return 0, fmt.Errorf("lifecycle.stopSignal %q is not a signal", *l.StopSignal)
	}
	return runtimeapi.Signal(number), nil
}

// LogPath returns a container's log path, relative to its sandbox's log directory: <name>/<attempt>.log. It returns
// an error if the name could leave that directory.
func LogPath(name string, attempt uint32) (string, error) {
	if err := hostfs.Element("container name", name); err != nil {
		return "", err
	}
	return path.Join(name, strconv.FormatUint(uint64(attempt), 10)+".log"), nil
}
