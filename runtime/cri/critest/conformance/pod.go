package conformance

import (
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels that every agent on a node writes.
const (
	labelUID       = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// A change alters a config before it is used.
type change[T any] func(*T)

func (b *bench) sandboxConfig(attempt uint32, changes ...change[runtimeapi.PodSandboxConfig]) *runtimeapi.PodSandboxConfig {
	c := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: b.name, Namespace: b.cfg.Namespace, Uid: b.uid, Attempt: attempt},
		Hostname:     "conformance",
		LogDirectory: filepath.Join(b.dir, "logs"),
		Labels:       map[string]string{labelUID: b.uid, "io.kubernetes.pod.name": b.name},
		Annotations:  map[string]string{"conformance/annotation": "a value"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	for _, f := range changes {
		f(c)
	}
	return c
}

// onNode omits the hostname, because a sandbox cannot change the node's.
func onNode(c *runtimeapi.PodSandboxConfig) {
	c.Hostname = ""
	c.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
}

func sharedPID(c *runtimeapi.PodSandboxConfig) {
	c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
}

// A pod is a sandbox that a rule has created.
type pod struct {
	*bench
	id     string
	config *runtimeapi.PodSandboxConfig
}

func (b *bench) runSandbox(attempt uint32, changes ...change[runtimeapi.PodSandboxConfig]) *pod {
	b.Helper()
	if err := os.MkdirAll(filepath.Join(b.dir, "logs"), 0o755); err != nil {
		b.Fatal(err)
	}
	c := b.sandboxConfig(attempt, changes...)
	resp, err := b.rt.RunPodSandbox(b.Context(), &runtimeapi.RunPodSandboxRequest{Config: c})
	b.must(err)
	if resp.GetPodSandboxId() == "" {
		b.broken("RunPodSandbox answered without an ID")
	}
	return &pod{bench: b, id: resp.GetPodSandboxId(), config: c}
}

func (p *pod) containerConfig(attempt uint32, command []string, changes ...change[runtimeapi.ContainerConfig]) *runtimeapi.ContainerConfig {
	c := &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt},
		Image:       &runtimeapi.ImageSpec{Image: p.cfg.Image, UserSpecifiedImage: p.cfg.Image},
		Command:     command,
		Labels:      map[string]string{labelUID: p.uid, labelContainer: "app"},
		Annotations: map[string]string{"conformance/annotation": "a value"},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: p.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	for _, f := range changes {
		f(c)
	}
	return c
}

func script(s string) []string { return []string{"sh", "-c", s} }

func (p *pod) tryCreate(c *runtimeapi.ContainerConfig) (string, error) {
	resp, err := p.rt.CreateContainer(p.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.id, Config: c, SandboxConfig: p.config,
	})
	if err == nil && resp.GetContainerId() == "" {
		p.broken("CreateContainer answered without an ID")
	}
	return resp.GetContainerId(), err
}

// create creates a container of the first attempt.
func (p *pod) create(command []string, changes ...change[runtimeapi.ContainerConfig]) string {
	p.Helper()
	id, err := p.tryCreate(p.containerConfig(0, command, changes...))
	p.must(err)
	return id
}

func (p *pod) run(command []string, changes ...change[runtimeapi.ContainerConfig]) string {
	p.Helper()
	id := p.create(command, changes...)
	p.must(p.startIt(id))
	return id
}

func (b *bench) startIt(id string) error {
	_, err := b.rt.StartContainer(b.Context(), &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

func (b *bench) stopIt(id string, timeout int64) error {
	_, err := b.rt.StopContainer(b.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	return err
}

func (b *bench) removeIt(id string) error {
	_, err := b.rt.RemoveContainer(b.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: id})
	return err
}

func (b *bench) stopSandboxIt(id string) error {
	_, err := b.rt.StopPodSandbox(b.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

func (b *bench) removeSandboxIt(id string) error {
	_, err := b.rt.RemovePodSandbox(b.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

func (b *bench) statusOf(id string) *runtimeapi.ContainerStatus {
	b.Helper()
	resp, err := b.rt.ContainerStatus(b.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	b.must(err)
	return resp.GetStatus()
}

func (b *bench) sandboxStatusOf(id string) *runtimeapi.PodSandboxStatus {
	b.Helper()
	resp, err := b.rt.PodSandboxStatus(b.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	b.must(err)
	return resp.GetStatus()
}

// patience is the maximum time for which a rule waits for something that the runtime does by itself.
const patience = 20 * time.Second

// waitFor ends the check if a condition does not become true.
func (b *bench) waitFor(what string, cond func() bool) {
	b.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.broken("after %v there was still no %s", patience, what)
		}
	}
}

func (b *bench) waitExited(id string) *runtimeapi.ContainerStatus {
	b.Helper()
	var st *runtimeapi.ContainerStatus
	b.waitFor("exit", func() bool {
		st = b.statusOf(id)
		return st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return st
}

// wantExit ends the check unless the container ends with this code.
func (b *bench) wantExit(id string, code int32) {
	b.Helper()
	if st := b.waitExited(id); st.GetExitCode() != code {
		b.broken("the exit code was %d, not %d", st.GetExitCode(), code)
	}
}

func (b *bench) listContainers(f *runtimeapi.ContainerFilter) []string {
	b.Helper()
	resp, err := b.rt.ListContainers(b.Context(), &runtimeapi.ListContainersRequest{Filter: f})
	b.must(err)
	var ids []string
	for _, c := range resp.GetContainers() {
		ids = append(ids, c.GetId())
	}
	return ids
}

func (b *bench) listSandboxes(f *runtimeapi.PodSandboxFilter) []string {
	b.Helper()
	resp, err := b.rt.ListPodSandbox(b.Context(), &runtimeapi.ListPodSandboxRequest{Filter: f})
	b.must(err)
	var ids []string
	for _, s := range resp.GetItems() {
		ids = append(ids, s.GetId())
	}
	return ids
}
