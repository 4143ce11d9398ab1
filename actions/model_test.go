package actions_test

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// model is the simplest node: it carries a plan out immediately, and reports any step that a real node could not carry
// out.
type model struct {
	pod        *v1.Pod
	status     *runtime.PodStatus
	probes     map[runtime.ContainerID]actions.ProbeResults
	restartAll bool
	complete   bool // the value of StatusComplete
	made       int  // sandboxes and containers so far, for their IDs
}

func newModel(pod *v1.Pod) *model {
	return &model{pod: pod, status: &runtime.PodStatus{}, probes: map[runtime.ContainerID]actions.ProbeResults{}}
}

func (m *model) input() actions.Input {
	return actions.Input{Pod: m.pod, Status: m.status, Probes: m.probes, RestartAll: m.restartAll, StatusComplete: m.complete}
}

func (m *model) id(prefix string) string {
	m.made++
	return fmt.Sprintf("%s%d", prefix, m.made)
}

// carryOut carries out the plan, in the order that Plan documents.
func (m *model) carryOut(p actions.Plan) error {
	if p.KillPod {
		m.stopAll()
	}
	for _, s := range p.Kill {
		if err := m.stop(s.ID); err != nil {
			return err
		}
	}
	for _, s := range p.Clear {
		if err := m.remove(s.ID, true); err != nil {
			return err
		}
	}
	for _, s := range p.Reset {
		if err := m.remove(s.ID, s.Stop); err != nil {
			return err
		}
	}
	if p.TerminatesPod() {
		return nil
	}
	if p.Sandbox.Create {
		if err := m.createSandbox(p.Sandbox); err != nil {
			return err
		}
	}
	for _, s := range p.Start {
		if err := m.start(s); err != nil {
			return err
		}
	}
	for _, s := range p.Resize {
		c := m.find(s.ID)
		c.Resources = resourcesOf(m.spec(s.Container.Name))
	}
	m.restartAll = m.restartAll && m.anyToReset()
	return nil
}

func (m *model) stopAll() {
	for i := range m.status.Containers {
		if c := &m.status.Containers[i]; c.Live() {
			c.State, c.ExitCode, c.Reason = runtime.ContainerExited, 137, "Error"
		}
	}
	for i := range m.status.Sandboxes {
		m.status.Sandboxes[i].State = runtime.SandboxNotReady
	}
}

func (m *model) stop(id runtime.ContainerID) error {
	c := m.find(id)
	if c == nil {
		return fmt.Errorf("kill of %v, which is not there", id)
	}
	if c.Live() {
		c.State, c.ExitCode, c.Reason = runtime.ContainerExited, 137, "Error"
	}
	return nil
}

func (m *model) remove(id runtime.ContainerID, stop bool) error {
	c := m.find(id)
	if c == nil {
		return fmt.Errorf("removal of %v, which is not there", id)
	}
	if c.Live() && !stop {
		return fmt.Errorf("removal of %v, which is %v and was not stopped", id, c.State)
	}
	m.status.Containers = slices.DeleteFunc(m.status.Containers, func(c runtime.ContainerStatus) bool { return c.ID == id })
	return nil
}

func (m *model) createSandbox(s actions.SandboxStep) error {
	for _, old := range m.status.Sandboxes {
		if old.State == runtime.SandboxReady || old.Attempt >= s.Attempt {
			return fmt.Errorf("sandbox attempt %d beside attempt %d, which is %v", s.Attempt, old.Attempt, old.State)
		}
	}
	for _, c := range m.status.Containers {
		if c.Live() {
			return fmt.Errorf("new sandbox while %s is %v", c.Name, c.State)
		}
	}
	sb := runtime.SandboxStatus{ID: m.id("s"), Attempt: s.Attempt, State: runtime.SandboxReady}
	if m.pod.Spec.HostNetwork {
		sb.NetworkMode = runtime.NamespaceNode
	} else {
		sb.Network = &runtime.SandboxNetwork{IPs: []string{"10.0.0.1"}}
	}
	m.status.Sandboxes = append(m.status.Sandboxes, sb)
	return nil
}

func (m *model) start(s actions.StartStep) error {
	active := m.status.ActiveSandbox()
	if active == nil {
		return fmt.Errorf("start of %v without a ready sandbox", s.Container)
	}
	for _, c := range m.status.Containers {
		if c.Name == s.Container.Name && c.Live() {
			return fmt.Errorf("start of %v while attempt %d is %v", s.Container, c.Attempt, c.State)
		}
		if c.Name == s.Container.Name && c.Attempt >= s.Attempt {
			return fmt.Errorf("start of %v as attempt %d after attempt %d", s.Container, s.Attempt, c.Attempt)
		}
	}
	spec := m.spec(s.Container.Name)
	m.status.Containers = append(m.status.Containers, runtime.ContainerStatus{
		ID: runtime.ContainerID{Type: "test", ID: m.id("c")}, Name: spec.Name, SandboxID: active.ID,
		State: runtime.ContainerRunning, Attempt: s.Attempt, SpecHash: runtime.HashContainer(spec), Resources: resourcesOf(spec),
	})
	return nil
}

func (m *model) find(id runtime.ContainerID) *runtime.ContainerStatus {
	i := slices.IndexFunc(m.status.Containers, func(c runtime.ContainerStatus) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &m.status.Containers[i]
}

func (m *model) anyToReset() bool {
	return slices.ContainsFunc(m.status.Containers, func(c runtime.ContainerStatus) bool {
		return !slices.ContainsFunc(m.pod.Spec.EphemeralContainers, func(e v1.EphemeralContainer) bool { return e.Name == c.Name }) &&
			m.spec(c.Name) != nil
	})
}

// specs returns the specs of all containers of the pod.
func (m *model) specs() []*v1.Container {
	var all []*v1.Container
	for i := range m.pod.Spec.InitContainers {
		all = append(all, &m.pod.Spec.InitContainers[i])
	}
	for i := range m.pod.Spec.Containers {
		all = append(all, &m.pod.Spec.Containers[i])
	}
	for i := range m.pod.Spec.EphemeralContainers {
		all = append(all, (*v1.Container)(&m.pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return all
}

func (m *model) spec(name string) *v1.Container {
	for _, c := range m.specs() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func resourcesOf(c *v1.Container) *runtime.ContainerResources {
	return &runtime.ContainerResources{
		CPURequest: c.Resources.Requests.Cpu().MilliValue(), CPULimit: c.Resources.Limits.Cpu().MilliValue(),
		MemoryRequest: c.Resources.Requests.Memory().Value(), MemoryLimit: c.Resources.Limits.Memory().Value(),
	}
}

// pass makes time pass: init containers succeed, and startup probes pass.
func (m *model) pass() {
	for i := range m.pod.Spec.InitContainers {
		spec := &m.pod.Spec.InitContainers[i]
		c := m.status.Latest(spec.Name)
		if c == nil || c.State != runtime.ContainerRunning {
			continue
		}
		if spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways {
			m.probes[c.ID] = actions.ProbeResults{Startup: actions.ProbeSuccess}
			continue
		}
		c.State, c.ExitCode, c.Reason = runtime.ContainerExited, 0, "Completed"
	}
}

// over reports whether the pod has ended: every regular container has exited and must not run again. An agent then
// requests no more plans.
func (m *model) over() bool {
	for i := range m.pod.Spec.Containers {
		spec := &m.pod.Spec.Containers[i]
		c := m.status.Latest(spec.Name)
		if c == nil || c.State != runtime.ContainerExited {
			return false
		}
		if again, _ := actions.AfterExit(m.pod, spec, c.ExitCode); again {
			return false
		}
	}
	return true
}

// live reports whether anything of the pod is left to stop.
func (m *model) live() bool {
	return m.status.ActiveSandbox() != nil ||
		slices.ContainsFunc(m.status.Containers, func(c runtime.ContainerStatus) bool { return c.Live() })
}

// run carries plans out, with time passing between them, until the pod is at
// rest, and returns how many that took.
func (m *model) run(bound int, saw func(actions.Plan)) (rounds int, err error) {
	for rounds = range bound {
		p := actions.Compute(m.input())
		if saw != nil {
			saw(p)
		}
		before := len(m.status.Containers)
		if err := m.carryOut(p); err != nil {
			return rounds, fmt.Errorf("%w\nplan:\n%v", err, p)
		}
		running := m.initRunning()
		m.pass()
		if p.NoOp() && !running && before == len(m.status.Containers) || p.TerminatesPod() && (m.over() || !m.live()) {
			return rounds + 1, nil
		}
	}
	return bound, fmt.Errorf("not at rest after %d rounds", bound)
}

// initRunning reports whether pass is about to change something.
func (m *model) initRunning() bool {
	return slices.ContainsFunc(m.pod.Spec.InitContainers, func(spec v1.Container) bool {
		c := m.status.Latest(spec.Name)
		if c == nil || c.State != runtime.ContainerRunning {
			return false
		}
		sidecar := spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways
		return !sidecar || spec.StartupProbe != nil && m.probes[c.ID].Startup != actions.ProbeSuccess
	})
}
