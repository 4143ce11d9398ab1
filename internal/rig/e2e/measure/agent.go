package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// agent is a node agent that watches a folder.
type agent struct {
	settings
	client *cri.Client
	cmd    *exec.Cmd
	dir    string
	events *eventLog
}

// graceSeconds is the grace period of all pods, the shortest with which containers are stopped.
const graceSeconds = 2

// nodeName is the suffix of the names that the agent gives its pods.
const nodeName = "n1"

// patience returns the maximum wait for all pods of a shape.
func (sh shape) patience() time.Duration { return 3*time.Minute + time.Duration(sh.pods)*time.Second }

// startAgent starts an agent without pods, and waits until it has settled.
func startAgent(s settings, client *cri.Client) (*agent, error) {
	dir, err := os.MkdirTemp("", "measure-agent-")
	if err != nil {
		return nil, err
	}
	a := &agent{settings: s, client: client, dir: dir}
	if err := os.Mkdir(a.manifests(), 0o755); err != nil {
		return nil, err
	}
	program, args, err := s.program()
	if err != nil {
		return nil, err
	}
	a.cmd = exec.Command(program, append(args, "-manifests", a.manifests(), "-runtime", s.endpoint, "-node", nodeName,
		"-root", a.root(), "-pod-logs", filepath.Join(dir, "logs"))...)
	output, err := os.Create(filepath.Join(dir, "output"))
	if err != nil {
		return nil, err
	}
	defer output.Close()
	a.cmd.Stdout, a.cmd.Stderr = output, output
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	a.events = listen(client)
	time.Sleep(3 * time.Second)
	return a, nil
}

// program returns the agent's program and its first arguments.
func (s settings) program() (program string, args []string, err error) {
	if !s.everything {
		return s.agent, nil, nil
	}
	program, err = os.Executable()
	return program, []string{asAgent}, err
}

func (a *agent) root() string { return filepath.Join(a.dir, "root") }

func (a *agent) manifests() string { return filepath.Join(a.dir, "manifests") }

// end stops the agent, and keeps its pods running.
func (a *agent) end() {
	a.events.end()
	_ = a.cmd.Process.Signal(os.Interrupt)
	_ = a.cmd.Wait()
	_ = exec.Command("umount", "-l", a.root()).Run() // an agent leaves its root mounted if it had to share it
	os.RemoveAll(a.dir)
	if a.everything {
		removeCgroups()
	}
}

// run writes manifests, and returns how long in seconds each pod took until its container
// ran, by the runtime's own clock.
func (a *agent) run(ctx context.Context, prefix string, sh shape) ([]float64, error) {
	began := time.Now()
	for i := range sh.pods {
		if err := a.write(fmt.Sprint(prefix, i), sh); err != nil {
			return nil, err
		}
	}
	started, err := a.all(ctx, prefix, sh, a.events.running, 25*time.Millisecond, func(started map[string]time.Time) error {
		return a.started(ctx, prefix, started)
	})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return since(began, started), nil
}

// all waits until events have reported all pods of a shape, and returns the time of each. Without
// events the runtime is polled each interval; with them once a second, because events may be lost.
func (a *agent) all(ctx context.Context, prefix string, sh shape, told func(string) map[string]time.Time,
	interval time.Duration, ask func(map[string]time.Time) error,
) (map[string]time.Time, error) {
	if a.events.streams {
		interval = time.Second
	}
	seen, first := map[string]time.Time{}, time.Now()
	for next := first.Add(interval); time.Since(first) < sh.patience(); {
		maps.Copy(seen, told(prefix))
		if len(seen) < sh.pods && time.Now().After(next) {
			if err := errors.Join(a.events.check(), ask(seen)); err != nil {
				return nil, err
			}
			next = time.Now().Add(interval)
		}
		if len(seen) >= sh.pods {
			return seen, nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("not all of %d pods within %v; see %s", sh.pods, sh.patience(), a.dir)
}

// since returns the seconds from began to each of the times.
func since(began time.Time, times map[string]time.Time) (seconds []float64) {
	for _, at := range times {
		seconds = append(seconds, at.Sub(began).Seconds())
	}
	return seconds
}

// write puts a manifest into the folder as a whole.
func (a *agent) write(name string, sh shape) error {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: measure}\nspec:\n  terminationGracePeriodSeconds: %d\n", name, graceSeconds)
	if sh.inits > 0 {
		text.WriteString("  initContainers:\n")
	}
	for k := range sh.inits {
		fmt.Fprintf(&text, "  - {name: init%d, image: %q, imagePullPolicy: IfNotPresent, command: [/bin/true]}\n", k, a.image)
	}
	command, err := json.Marshal(sh.command())
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "  containers:\n  - name: main\n    image: %q\n    imagePullPolicy: IfNotPresent\n    command: %s\n", a.image, command)
	if a.everything {
		text.WriteString(a.everythingSpec())
	}
	temporary := filepath.Join(a.manifests(), "."+name)
	if err := os.WriteFile(temporary, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(a.manifests(), name+".yaml"))
}

// started adds the pods whose container runs by now.
func (a *agent) started(ctx context.Context, prefix string, started map[string]time.Time) error {
	list, err := a.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return err
	}
	for _, c := range list.GetContainers() {
		pod := c.GetLabels()[runtime.LabelPodName]
		if _, known := started[pod]; known || c.GetMetadata().GetName() != "main" || !strings.HasPrefix(pod, prefix) {
			continue
		}
		status, err := a.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		if err != nil {
			return err
		}
		started[pod] = time.Unix(0, status.GetStatus().GetStartedAt())
	}
	return nil
}

// stop removes the manifests, and returns, in seconds, how long it took until the runtime had no object of each
// pod.
func (a *agent) stop(ctx context.Context, prefix string, sh shape) ([]float64, error) {
	began := time.Now()
	var errs []error
	for i := range sh.pods {
		errs = append(errs, os.Remove(filepath.Join(a.manifests(), fmt.Sprint(prefix, i, ".yaml"))))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	gone, err := a.all(ctx, prefix, sh, a.events.removed, 10*time.Millisecond, func(gone map[string]time.Time) error {
		return a.gone(ctx, prefix, sh, gone)
	})
	if err != nil {
		return nil, fmt.Errorf("stop: %w", err)
	}
	if err := pause(ctx, time.Second); err != nil {
		return nil, err
	}
	unlisted := map[string]time.Time{}
	if err := a.gone(ctx, prefix, sh, unlisted); err != nil {
		return nil, err
	}
	if left := sh.pods - len(unlisted); left > 0 {
		return nil, fmt.Errorf("stop: the runtime has told that all pods are gone, and lists %d", left)
	}
	return since(began, gone), nil
}

// gone records each pod whose sandbox the runtime no longer lists.
func (a *agent) gone(ctx context.Context, prefix string, sh shape, gone map[string]time.Time) error {
	list, err := a.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, s := range list.GetItems() {
		there[s.GetMetadata().GetName()] = true
	}
	for i := range sh.pods {
		pod := fmt.Sprint(prefix, i, "-"+nodeName)
		if _, known := gone[pod]; !known && !there[pod] {
			gone[pod] = time.Now()
		}
	}
	return nil
}
