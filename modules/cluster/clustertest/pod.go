package clustertest

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// A Pod is a pod that a test acts on.
type Pod struct {
	cluster *Cluster
	name    string
}

// Pod returns a pod, NAMESPACE/NAME, which need not exist yet.
func (c *Cluster) Pod(name string) *Pod { return &Pod{c, name} }

// OOMKill ends a running container as the kernel's OOM killer does: with exit code 137 and the reason OOMKilled.
func (p *Pod) OOMKill(container string) error {
	return p.end(container, critest.Exit{Code: 137, Reason: "OOMKilled"})
}

// Exit ends a running container with an exit code.
func (p *Pod) Exit(container string, code int32) error {
	return p.end(container, critest.Exit{Code: code})
}

func (p *Pod) end(container string, exit critest.Exit) error {
	ctx := context.Background()
	node, id, err := p.find(ctx, container)
	if err != nil {
		return err
	}
	return node.Runtime.ExitContainer(id, exit)
}

// Exec runs a command in a running container, and returns its standard output.
func (p *Pod) Exec(ctx context.Context, container string, command ...string) ([]byte, error) {
	node, id, err := p.find(ctx, container)
	if err != nil {
		return nil, err
	}
	return node.Exec(ctx, id, command...)
}

// find returns the pod's node, and the ID of the running container.
func (p *Pod) find(ctx context.Context, container string) (*fleet.Node, string, error) {
	pod, err := p.cluster.get(ctx, p.name)
	switch {
	case err != nil:
		return nil, "", err
	case pod == nil:
		return nil, "", fmt.Errorf("there is no pod %s", p.name)
	}
	node := p.cluster.fleet.Node(pod.Spec.NodeName)
	if node == nil {
		return nil, "", fmt.Errorf("pod %s is on no node", p.name)
	}
	return p.running(ctx, node, pod, container)
}

func (p *Pod) running(ctx context.Context, node *fleet.Node, pod *v1.Pod, container string) (*fleet.Node, string, error) {
	ids, err := node.Containers(ctx, pod.UID)
	if err != nil {
		return nil, "", err
	}
	id, ok := ids[container]
	if !ok {
		return nil, "", fmt.Errorf("container %q of pod %s does not run", container, p.name)
	}
	return node, id, nil
}
