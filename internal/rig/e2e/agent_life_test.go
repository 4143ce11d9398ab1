package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

const (
	runs = `
initContainers:
- {name: init, image: localhost/busybox:e2e, command: ["true"]}
- {name: sidecar, image: localhost/busybox:e2e, restartPolicy: Always, command: [sleep, infinity]}
containers:
- {name: app, image: localhost/busybox:e2e, command: [sleep, infinity]}
`
	job = `
restartPolicy: OnFailure
containers:
- {name: app, image: localhost/busybox:e2e, command: ["true"]}
`
)

// TestAgentRestarts: an agent that ends keeps its pods running, and the next one adopts them.
func TestAgentRestarts(t *testing.T) {
	onNodes(t, func(n *node) {
		strangers := n.strangers()
		first := n.start()
		stays, leaves, dies := first.pod(n, "stays", runs), first.pod(n, "leaves", runs), first.pod(n, "dies", runs)
		done, lost := first.pod(n, "done", job), first.pod(n, "done-and-lost", job)
		app, sidecar := stays.running("app", 0), stays.running("sidecar", 0)
		ran := leaves.running("app", 0)
		killed := dies.running("app", 0)
		for _, p := range []*pod{done, lost} {
			p.saidPhase(v1.PodSucceeded)
			p.ended()
		}
		finished := done.exited("app", 0)

		first.end()
		if said := first.said("Message", ""); !strings.Contains(said[len(said)-1].Message, "Detached") {
			n.Errorf("the last words are %q", said[len(said)-1].Message)
		}
		stays.only("app", app)
		stays.only("sidecar", sidecar)
		leaves.only("app", ran)
		leaves.delete()
		resp := must.Get(n.runtime.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: killed.GetId(), Verbose: true}))(n)
		n.kill(resp.GetInfo())
		must.Get(n.runtime.RemovePodSandbox(n.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: lost.sandboxes()[0].GetId()}))(n)

		second := n.start("-drain")
		comes := second.pod(n, "comes", runs)
		for _, p := range []*pod{stays, leaves, dies, done, lost} {
			p.agent = second
		}
		comes.running("app", 0)
		if again := dies.running("app", 1); again.GetId() == killed.GetId() {
			n.Error("the one that was killed is back")
		}
		leaves.gone()
		stays.said("all run", func(s *v1.PodStatus) bool { return s.Phase == v1.PodRunning && s.ContainerStatuses[0].Ready })
		stays.only("app", app)
		stays.only("sidecar", sidecar)
		done.saidPhase(v1.PodSucceeded)
		if all := done.runs("app"); len(all) != 1 || all[0].GetId() != finished.GetId() {
			n.Errorf("the pod that was done has run again: %v", all)
		}
		lost.saidPhase(v1.PodSucceeded)
		if s := lost.sandboxes(); len(s) > 0 {
			n.Errorf("the pod that was done is made again: %v", s)
		}

		second.end()
		n.drained()
		for _, id := range strangers {
			resp := must.Get(n.runtime.PodSandboxStatus(n.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id}))(n)
			if resp.GetStatus().GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
				n.Errorf("the pod of another agent is stopped: %v", resp)
			}
		}
	})
}

// strangers creates pods of other agents: one of a kubelet, and one of a podsync agent with another name.
func (n *node) strangers() (ids []string) {
	n.Helper()
	labels := map[string]string{runtime.LabelPodName: "stranger", runtime.LabelPodNamespace: "e2e", runtime.LabelPodUID: "stranger"}
	for i, labels := range []map[string]string{labels, cri.Owner{Name: "somebody"}.Mark(labels)} {
		resp := must.Get(n.runtime.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
			Metadata:    &runtimeapi.PodSandboxMetadata{Name: "stranger", Namespace: "e2e", Uid: fmt.Sprint("stranger-", i, time.Now().UnixNano())},
			Labels:      labels,
			Annotations: map[string]string{runtime.AnnotationConfigSource: runtime.ConfigSourceFile},
			Linux:       &runtimeapi.LinuxPodSandboxConfig{},
		}}))(n)
		id := resp.GetPodSandboxId()
		n.Cleanup(func() {
			if _, err := n.runtime.RemovePodSandbox(context.Background(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
				n.Error(err)
			}
		})
		ids = append(ids, id)
	}
	return ids
}

// drained checks that nothing runs any more.
func (n *node) drained() {
	n.Helper()
	for _, s := range n.all() {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			n.Errorf("a sandbox is left running: %v", s)
		}
		list := must.Get(n.runtime.ListContainers(context.Background(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: s.GetId()}}))(n)
		if slices.ContainsFunc(list.GetContainers(), func(c *runtimeapi.Container) bool {
			return c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
		}) {
			n.Errorf("a container is left running: %v", list)
		}
	}
}

// TestAgentDrains: the next agent starts the pods that an agent has stopped at its end.
func TestAgentDrains(t *testing.T) {
	onNodes(t, func(n *node) {
		s := n.story()
		first := n.start("-drain")
		p := first.pod(n, "drained", `
terminationGracePeriodSeconds: 60
volumes: [`+s.volume()+`]
containers:
- {name: app, `+ending("ended")+`}
`)
		finished := first.pod(n, "finished", job)
		app := p.listening("app")
		finished.saidPhase(v1.PodSucceeded)
		first.end()
		s.has("ended")
		n.drained()
		second := n.start("-drain")
		p.agent, finished.agent = second, second
		if again := p.listening("app"); again.GetId() == app.GetId() {
			n.Error("it was never stopped")
		}
		if all := finished.runs("app"); len(all) > 1 {
			n.Errorf("the pod that was done has run again: %v", all)
		}
	})
}
