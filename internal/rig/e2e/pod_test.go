package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A pod is one whose manifest is in the folder of a node's agent.
type pod struct {
	*node
	agent *agent
	file  string
	name  string // in the agent's form
}

// pod writes a pod's manifest. At the end of the test the manifest is removed, and no object of the pod may be
// left.
func (a *agent) pod(n *node, name, spec string) *pod {
	n.Helper()
	p := &pod{node: n, agent: a, file: name + ".yaml", name: name + "-" + nodeName}
	n.Cleanup(func() {
		if n.Failed() {
			n.Log(p.agent.story(p.name))
		}
		p.delete()
		if p.agent.cmd.ProcessState == nil { // if an agent runs that notices it
			p.gone()
		}
	})
	p.change(spec)
	return p
}

// change writes the manifest again.
func (p *pod) change(spec string) {
	p.Helper()
	p.write(p.file, manifest(p.name, spec))
}

// manifest returns a pod's manifest; the agent appends the node's name to the pod's. The pod has a short grace period,
// unless its spec sets one.
func manifest(name, spec string) string {
	name = strings.TrimSuffix(name, "-"+nodeName)
	if !strings.Contains(spec, "terminationGracePeriodSeconds") {
		spec = "terminationGracePeriodSeconds: 1\n" + strings.TrimSpace(spec)
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: %s\nspec:\n  %s\n",
		name, namespace, strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  "))
}

func (p *pod) delete() { p.remove(p.file) }

// sandboxes returns the runtime's sandboxes of the pod, the newest last.
func (p *pod) sandboxes() []*runtimeapi.PodSandbox {
	p.Helper()
	resp := must.Get(p.runtime.ListPodSandbox(context.Background(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{runtime.LabelPodName: p.name, runtime.LabelPodNamespace: namespace},
	}}))(p)
	return slices.SortedFunc(slices.Values(resp.GetItems()), func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt())
	})
}

// runs returns the runtime's instances of a container in the spec, the newest last.
func (p *pod) runs(container string) []*runtimeapi.ContainerStatus {
	p.Helper()
	list := must.Get(p.runtime.ListContainers(context.Background(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{
			runtime.LabelPodName: p.name, runtime.LabelPodNamespace: namespace, runtime.LabelContainerName: container,
		},
	}}))(p)
	var runs []*runtimeapi.ContainerStatus
	for _, c := range list.GetContainers() {
		resp, err := p.runtime.ContainerStatus(context.Background(), &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		if status.Code(err) == codes.NotFound {
			continue
		}
		must.Do(p, err)
		runs = append(runs, resp.GetStatus())
	}
	slices.SortFunc(runs, func(a, b *runtimeapi.ContainerStatus) int { return cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()) })
	return runs
}

// running waits until a container runs, and exited until it has ended, in an
// attempt or a later one.
func (p *pod) running(container string, attempt uint32) *runtimeapi.ContainerStatus {
	p.Helper()
	return p.await(container, attempt, runtimeapi.ContainerState_CONTAINER_RUNNING)
}

func (p *pod) exited(container string, attempt uint32) *runtimeapi.ContainerStatus {
	p.Helper()
	return p.await(container, attempt, runtimeapi.ContainerState_CONTAINER_EXITED)
}

func (p *pod) await(container string, attempt uint32, state runtimeapi.ContainerState) (found *runtimeapi.ContainerStatus) {
	p.Helper()
	p.eventually(func() error {
		runs := p.runs(container)
		for _, c := range runs {
			if c.GetMetadata().GetAttempt() >= attempt && c.GetState() == state {
				found = c
				return nil
			}
		}
		return fmt.Errorf("no container %s of attempt %d is %v, but %v", container, attempt, state, runs)
	})
	return found
}

// gone waits until the runtime has no object of the pod.
func (p *pod) gone() {
	p.Helper()
	p.eventually(func() error {
		if left := p.sandboxes(); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return nil
	})
}

// stopped waits until a container runs no more.
func (p *pod) stopped(c *runtimeapi.ContainerStatus) {
	p.Helper()
	p.eventually(func() error {
		resp, err := p.runtime.ContainerStatus(context.Background(), &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		switch {
		case status.Code(err) == codes.NotFound:
			return nil
		case err == nil && resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING:
			return fmt.Errorf("container %s still runs", c.GetMetadata().GetName())
		}
		return err
	})
}

// exec runs a command in a container, and returns its output.
func (p *pod) exec(c *runtimeapi.ContainerStatus, command ...string) string {
	p.Helper()
	resp := must.Get(p.runtime.ExecSync(context.Background(), &runtimeapi.ExecSyncRequest{ContainerId: c.GetId(), Cmd: command, Timeout: 30}))(p)
	if resp.GetExitCode() != 0 {
		p.Fatalf("%q: exit code %d: %s", command, resp.GetExitCode(), resp.GetStderr())
	}
	return string(resp.GetStdout())
}

// said waits until the status that the agent reports for the pod meets a condition.
func (p *pod) said(about string, ok func(s *v1.PodStatus) bool) (found *v1.PodStatus) {
	p.Helper()
	p.eventually(func() error {
		for _, l := range p.agent.said("Pod", p.name) {
			if ok(&l.Status) {
				found = &l.Status
				return nil
			}
		}
		return fmt.Errorf("the agent has not reported: %s", about)
	})
	return found
}

func (p *pod) saidPhase(phase v1.PodPhase) *v1.PodStatus {
	p.Helper()
	return p.said("phase "+string(phase), func(s *v1.PodStatus) bool { return s.Phase == phase })
}

// saidWaiting waits until the agent reports that the first container waits for one of the reasons.
func (p *pod) saidWaiting(reasons ...string) *v1.PodStatus {
	p.Helper()
	return p.said("waiting: "+strings.Join(reasons, " or "), func(s *v1.PodStatus) bool {
		return len(s.ContainerStatuses) > 0 && s.ContainerStatuses[0].State.Waiting != nil && slices.Contains(reasons, s.ContainerStatuses[0].State.Waiting.Reason)
	})
}

// event waits for an event of the pod.
func (p *pod) event(reason, words string) {
	p.Helper()
	p.eventually(func() error {
		if slices.ContainsFunc(p.agent.said("Event", p.name), func(l line) bool {
			return l.Reason == reason && strings.Contains(l.Message, words)
		}) {
			return nil
		}
		return fmt.Errorf("no event %s with %q", reason, words)
	})
}

// log returns a container's output from its log in CRI's format.
func (p *pod) log(c *runtimeapi.ContainerStatus) []string {
	p.Helper()
	log := must.Get(os.ReadFile(p.logPath(c)))(p)
	var texts []string
	for l := range strings.Lines(string(log)) {
		fields := strings.SplitN(strings.TrimSuffix(l, "\n"), " ", 4)
		if len(fields) != 4 {
			p.Fatalf("the log has the line %q", l)
		}
		must.Get(time.Parse(time.RFC3339Nano, fields[0]))(p)
		texts = append(texts, fields[3])
	}
	return texts
}

// logPath returns the path at which log shippers read the log.
func (p *pod) logPath(c *runtimeapi.ContainerStatus) string {
	uid := c.GetLabels()[runtime.LabelPodUID]
	return filepath.Join(p.logs, namespace+"_"+p.name+"_"+uid, c.GetMetadata().GetName(), fmt.Sprint(c.GetMetadata().GetAttempt())+".log")
}

// began and over return when a container started and finished, according to the runtime.
func began(c *runtimeapi.ContainerStatus) time.Time { return time.Unix(0, c.GetStartedAt()) }

func over(c *runtimeapi.ContainerStatus) time.Time { return time.Unix(0, c.GetFinishedAt()) }

// ended waits until the pod has ended for good: its one sandbox is stopped, and
// so none of its containers can start again in it.
func (p *pod) ended() {
	p.Helper()
	p.eventually(func() error {
		s := p.sandboxes()
		if len(s) != 1 || s[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
			return fmt.Errorf("the pod has not ended: %v", s)
		}
		return nil
	})
}
