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

// exits tells when containers exit, by the runtime's events or, without these, by
// asking again and again.
type exits struct {
	client *cri.Client
	mu     sync.Mutex
	exited map[string]chan struct{}
	stream bool
}

func watchExits(ctx context.Context, client *cri.Client) *exits {
	e := &exits{client: client, exited: map[string]chan struct{}{}}
	events, err := client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return e
	}
	first := make(chan error, 1)
	go func() {
		for {
			m, err := events.Recv()
			if err != nil {
				first <- err
				return
			}
			if m.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
				e.tell(m.GetContainerId())
			}
		}
	}()
	select {
	case <-first: // the runtime has no events
	case <-time.After(200 * time.Millisecond):
		e.stream = true
	}
	return e
}

func (e *exits) of(id string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.exited[id] == nil {
		e.exited[id] = make(chan struct{})
	}
	return e.exited[id]
}

// tell says that a container has exited. Events may come twice.
func (e *exits) tell(id string) {
	exited := e.of(id)
	select {
	case <-exited:
	default:
		close(exited)
	}
}

func (e *exits) wait(ctx context.Context, id string) error {
	if e.stream {
		select {
		case <-e.of(id):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("container %s: no exit: %w", id, ctx.Err())
		}
	}
	for {
		s, err := e.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil || s.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// floor returns the median time in seconds that pods take to run their containers
// with nothing but the calls that this needs.
func floor(ctx context.Context, client *cri.Client, image string, sh shape) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	logs, err := os.MkdirTemp("", "measure-floor-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(logs)
	f := bare{client: client, image: image, exits: watchExits(ctx, client), logs: logs}
	took, errs := make([]float64, sh.pods), make([]error, sh.pods)
	sandboxes := make([]string, sh.pods)
	began := time.Now()
	var pods sync.WaitGroup
	for i := range sh.pods {
		pods.Go(func() {
			sandboxes[i], errs[i] = f.pod(ctx, i, sh.inits)
			took[i] = time.Since(began).Seconds()
		})
	}
	pods.Wait()
	for _, id := range sandboxes {
		pods.Go(func() { f.remove(id) })
	}
	pods.Wait()
	return median(took), errors.Join(errs...)
}

// bare makes pods with bare calls.
type bare struct {
	client *cri.Client
	image  string
	exits  *exits
	logs   string
}

// pod makes a pod, and returns when its container runs.
func (f bare) pod(ctx context.Context, i, inits int) (sandbox string, err error) {
	name := "floor" + strconv.Itoa(i)
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "measure", Uid: fmt.Sprint(name, time.Now().UnixNano())},
		LogDirectory: filepath.Join(f.logs, name), Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
	if err := os.Mkdir(config.LogDirectory, 0o755); err != nil {
		return "", err
	}
	made, err := f.client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", err
	}
	sandbox = made.GetPodSandboxId()
	for k := range inits {
		id, err := f.container(ctx, sandbox, config, "init"+strconv.Itoa(k), "/bin/true")
		if err == nil {
			err = f.exits.wait(ctx, id)
		}
		if err != nil {
			return sandbox, err
		}
	}
	_, err = f.container(ctx, sandbox, config, "main", "/bin/sleep", "3600")
	return sandbox, err
}

func (f bare) container(ctx context.Context, sandbox string, config *runtimeapi.PodSandboxConfig, name string, command ...string) (string, error) {
	made, err := f.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: f.image},
			Command: command, LogPath: name + ".log", Linux: &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		return "", err
	}
	_, err = f.client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: made.GetContainerId()})
	return made.GetContainerId(), err
}

// remove removes a sandbox and all in it. What stays is for a person to remove.
func (f bare) remove(sandbox string) {
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
