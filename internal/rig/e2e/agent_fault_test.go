package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// The pod of these tests.
const twoContainers = `
initContainers:
- {name: init, image: localhost/busybox:e2e, command: ["true"]}
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
- {name: other, image: localhost/busybox:e2e, command: [sleep, infinity]}
`

// kill kills the process of a container or sandbox. Each runtime reports the process in its own form.
func (n *node) kill(info map[string]string) {
	n.Helper()
	var about struct{ Pid int }
	must.Do(n, json.Unmarshal([]byte(info["info"]), &about))
	if strings.Contains(info["info"], `"io.kubernetes.cri-o.Spoofed":"true"`) {
		n.Skip("CRI-O makes no process for this sandbox")
	}
	if about.Pid <= 1 {
		n.Fatalf("no process: %v", info)
	}
	process := must.Get(os.FindProcess(about.Pid))(n)
	must.Do(n, process.Kill())
}

func containerKilled(n *node, a *agent) {
	p := a.pod(n, "container-killed", twoContainers)
	app, other := p.running("app", 0), p.running("other", 0)
	resp := must.Get(n.runtime.ContainerStatus(context.Background(), &runtimeapi.ContainerStatusRequest{ContainerId: app.GetId(), Verbose: true}))(n)
	n.kill(resp.GetInfo())
	again := p.running("app", 1)
	runs := p.history("app", 2)
	if runs[0].GetExitCode() != 137 || runs[1].GetId() != again.GetId() {
		n.Errorf("runs %v, want ExitCode 137 and Id %v", runs, again.GetId())
	}
	p.only("other", other)
	if s := p.sandboxes(); len(s) != 1 {
		n.Errorf("%d sandboxes, want 1 of them", len(s))
	}
	if runs := p.runs("init"); len(runs) > 1 {
		n.Errorf("%d runs of the init container", len(runs))
	}
}

// only checks that a container runs on as it did.
func (p *pod) only(name string, was *runtimeapi.ContainerStatus) {
	p.Helper()
	runs := p.runs(name)
	if len(runs) != 1 || runs[0].GetId() != was.GetId() || runs[0].GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		p.Errorf("container %s was %s, and now there are %v", name, was.GetId(), runs)
	}
}

// If a sandbox dies, all its containers end, and the pod starts over in another sandbox.
func sandboxKilled(n *node, a *agent) {
	p := a.pod(n, "sandbox-killed", twoContainers)
	first := p.sandboxOf(p.running("other", 0))
	resp := must.Get(n.runtime.PodSandboxStatus(context.Background(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: first, Verbose: true}))(n)
	n.kill(resp.GetInfo())
	p.anew(first)
}

func sandboxRemoved(n *node, a *agent) {
	p := a.pod(n, "sandbox-removed", twoContainers)
	first := p.sandboxOf(p.running("other", 0))
	must.Get(n.runtime.StopPodSandbox(context.Background(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: first}))(n)
	n.eventually(func() error { // containerd removes no container whose start has not returned yet
		_, err := n.runtime.RemovePodSandbox(context.Background(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: first})
		return err
	})
	p.anew(first)
}

// anew waits until the pod runs only in a sandbox other than its first.
func (p *pod) anew(first string) {
	p.Helper()
	p.running("app", 1)
	p.running("other", 1)
	p.exited("init", 1)
	ready := slices.DeleteFunc(p.sandboxes(), func(s *runtimeapi.PodSandbox) bool {
		return s.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY
	})
	if len(ready) != 1 || ready[0].GetId() == first || ready[0].GetMetadata().GetAttempt() == 0 {
		p.Errorf("ready sandboxes %v; the first was %s", ready, first)
	}
	list := must.Get(p.runtime.ListContainers(context.Background(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		PodSandboxId: first, State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}}))(p)
	if len(list.GetContainers()) > 0 {
		p.Errorf("these still run in the old sandbox: %v", list.GetContainers())
	}
}

// Containers that the runtime has lost are created again. Attempts continue.
func containersRemoved(n *node, a *agent) {
	p := a.pod(n, "containers-removed", twoContainers)
	app, other := p.running("app", 0), p.running("other", 0)
	must.Get(n.runtime.RemoveContainer(context.Background(), &runtimeapi.RemoveContainerRequest{ContainerId: app.GetId()}))(n)
	again := p.running("app", 1)
	if again.GetId() == app.GetId() {
		n.Error("it is not another one")
	}
	p.only("other", other)
	p.eventually(func() error {
		if runs := p.runs("app"); len(runs) != 1 {
			return fmt.Errorf("%d containers", len(runs))
		}
		return nil
	})
}

// sandboxOf returns the ID of a container's sandbox.
func (p *pod) sandboxOf(c *runtimeapi.ContainerStatus) string {
	p.Helper()
	list := must.Get(p.runtime.ListContainers(context.Background(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{Id: c.GetId()}}))(p)
	if len(list.GetContainers()) != 1 {
		p.Fatalf("container %s: %v, want 1 of them", c.GetId(), list)
	}
	return list.GetContainers()[0].GetPodSandboxId()
}
