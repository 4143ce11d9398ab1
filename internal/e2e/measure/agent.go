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
	"slices"
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
}

// graceSeconds is the grace period of all pods, the shortest that containers are stopped with
// while there is time.
const graceSeconds = 2

// patience is how long at most is waited for all pods of a shape.
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
	a.cmd = exec.Command(program, append(args, "-manifests", a.manifests(), "-runtime", s.endpoint, "-node", "n1",
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
	time.Sleep(3 * time.Second)
	return a, nil
}

// program is that of the agent, and its first arguments.
func (s settings) program() (program string, args []string, err error) {
	if !s.everything {
		return s.agent, nil, nil
	}
	program, err = os.Executable()
	return program, []string{asAgent}, err
}

func (a *agent) root() string { return filepath.Join(a.dir, "root") }

func (a *agent) manifests() string { return filepath.Join(a.dir, "manifests") }

// end ends the agent, and leaves its pods.
func (a *agent) end() {
	_ = a.cmd.Process.Signal(os.Interrupt)
	_ = a.cmd.Wait()
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
	took := map[string]float64{}
	for len(took) < sh.pods {
		if time.Since(began) > sh.patience() {
			return nil, fmt.Errorf("%d pods run after %v; see %s", len(took), sh.patience(), a.dir)
		}
		if err := a.started(ctx, prefix, began, took); err != nil {
			return nil, err
		}
		if err := pause(ctx, 25*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Values(took)), nil
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
func (a *agent) started(ctx context.Context, prefix string, began time.Time, took map[string]float64) error {
	list, err := a.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return err
	}
	for _, c := range list.GetContainers() {
		pod := c.GetLabels()[runtime.LabelPodName]
		if _, known := took[pod]; known || c.GetMetadata().GetName() != "main" || !strings.HasPrefix(pod, prefix) {
			continue
		}
		status, err := a.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		if err != nil {
			return err
		}
		took[pod] = time.Unix(0, status.GetStatus().GetStartedAt()).Sub(began).Seconds()
	}
	return nil
}

// stop removes the manifests, and returns how long in seconds it took until the runtime
// had nothing of each pod any more. It is seen a few milliseconds late.
func (a *agent) stop(ctx context.Context, prefix string, sh shape) ([]float64, error) {
	began := time.Now()
	var errs []error
	for i := range sh.pods {
		errs = append(errs, os.Remove(filepath.Join(a.manifests(), fmt.Sprint(prefix, i, ".yaml"))))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var took []float64
	for time.Since(began) < sh.patience() {
		left, err := a.left(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for len(took) < sh.pods-left {
			took = append(took, time.Since(began).Seconds())
		}
		if left == 0 {
			return took, pause(ctx, time.Second)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("pods are there %v after they were removed; see %s", sh.patience(), a.dir)
}

// left returns how many pods the runtime has anything of.
func (a *agent) left(ctx context.Context, prefix string) (pods int, err error) {
	list, err := a.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	for _, s := range list.GetItems() {
		if strings.HasPrefix(s.GetMetadata().GetName(), prefix) {
			pods++
		}
	}
	return pods, err
}
