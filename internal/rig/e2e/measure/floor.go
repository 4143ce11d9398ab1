package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// floor returns the times in seconds that each pod takes to run its containers with only the necessary calls, and to be
// removed again.
func floor(ctx context.Context, client *cri.Client, events *eventLog, image string, sh shape) (starts, stops []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	logs, err := os.MkdirTemp("", "measure-floor-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(logs)
	f := bare{client: client, image: image, events: events, logs: logs}
	made := make([]barePod, sh.pods)
	began := time.Now()
	_, err = atOnce(sh.pods, func(i int) (err error) {
		made[i], err = f.pod(ctx, i, sh)
		return err
	})
	if err == nil {
		starts, err = f.starts(ctx, began, made)
	}
	if err != nil {
		for _, p := range made {
			f.remove(p)
		}
		return nil, nil, err
	}
	stops, err = atOnce(sh.pods, func(i int) error { return f.stop(ctx, made[i]) })
	return starts, stops, err
}

// atOnce does something for all pods at once, and returns when each was done.
func atOnce(pods int, do func(pod int) error) (took []float64, err error) {
	took, errs := make([]float64, pods), make([]error, pods)
	began := time.Now()
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() {
			errs[i] = do(i)
			took[i] = time.Since(began).Seconds()
		})
	}
	group.Wait()
	return took, errors.Join(errs...)
}

// barePod is a pod as the objects that the runtime has of it.
type barePod struct {
	sandbox    string
	containers []string // the last one runs
}

// bare makes pods with bare calls.
type bare struct {
	client *cri.Client
	image  string
	events *eventLog
	logs   string
}

// pod creates a pod, and returns when its container runs.
func (f bare) pod(ctx context.Context, i int, sh shape) (p barePod, err error) {
	name := "floor" + strconv.Itoa(i)
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "measure", Uid: fmt.Sprint(name, time.Now().UnixNano())},
		LogDirectory: filepath.Join(f.logs, name),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: namespaces(), Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		}},
	}
	if err := os.Mkdir(config.LogDirectory, 0o755); err != nil {
		return p, err
	}
	made, err := f.client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return p, err
	}
	p.sandbox = made.GetPodSandboxId()
	for k := range sh.inits {
		id, err := f.container(ctx, p.sandbox, config, "init"+strconv.Itoa(k), "/bin/true")
		if err == nil {
			err = f.events.exit(ctx, id)
		}
		if err != nil {
			return p, err
		}
		p.containers = append(p.containers, id)
	}
	id, err := f.container(ctx, p.sandbox, config, "main", sh.command()...)
	p.containers = append(p.containers, id)
	return p, err
}

// starts returns how long each pod took until its container ran, by the runtime's own clock.
func (f bare) starts(ctx context.Context, began time.Time, made []barePod) (seconds []float64, err error) {
	for _, p := range made {
		s, err := f.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: p.containers[len(p.containers)-1]})
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Unix(0, s.GetStatus().GetStartedAt()).Sub(began).Seconds())
	}
	return seconds, nil
}

// namespaces returns the namespaces of pods that request no others. A container's main process is the first of its PID
// namespace, and so ends on SIGTERM only if it has a handler.
func namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
}

// stop ends a pod as an agent has to: its container with the grace period of the
// manifests, then the sandbox with its network, and then all is removed.
func (f bare) stop(ctx context.Context, p barePod) error {
	running := p.containers[len(p.containers)-1]
	if _, err := f.client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: running, Timeout: graceSeconds}); err != nil {
		return err
	}
	if _, err := f.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.sandbox}); err != nil {
		return err
	}
	for _, id := range p.containers {
		if _, err := f.client.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
			return err
		}
	}
	_, err := f.client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	return err
}

func (f bare) container(ctx context.Context, sandbox string, config *runtimeapi.PodSandboxConfig, name string, command ...string) (string, error) {
	made, err := f.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: f.image},
			Command: command, LogPath: name + ".log",
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces()}},
		},
	})
	if err != nil {
		return "", err
	}
	_, err = f.client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.GetContainerId()})
	return made.GetContainerId(), err
}

// remove removes a sandbox and everything in it. If it fails, a person must remove the rest.
func (f bare) remove(p barePod) {
	sandbox := p.sandbox
	if sandbox == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := f.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: sandbox})
	if err == nil {
		_, err = f.client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "measure: sandbox %s is left: %v\n", sandbox, err)
	}
}
