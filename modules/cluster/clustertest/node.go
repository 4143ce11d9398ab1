package clustertest

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/modules/cluster/internal/fleet"
)

// A NodeSpec describes a node.
type NodeSpec = fleet.Spec

// nodeReadyWithin is the maximum time until a node is ready.
const nodeReadyWithin = time.Minute

// AddNode adds a node, and waits until it is ready.
func (c *Cluster) AddNode(t testing.TB, s NodeSpec) {
	t.Helper()
	c.add(t, s)
	c.awaitNode(t, s.Name)
}

func (c *Cluster) add(t testing.TB, s NodeSpec) {
	t.Helper()
	node, err := c.fleet.Add(s)
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) awaitNode(t testing.TB, name string) {
	t.Helper()
	var failed error
	ready := poll(t.Context(), nodeReadyWithin, func(ctx context.Context) bool {
		var node *v1.Node
		node, failed = c.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return failed == nil && slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
		})
	})
	if !ready {
		t.Fatalf("node %s is not ready after %v: %v", name, nodeReadyWithin, failed)
	}
}

// A Node is a machine of the cluster.
type Node struct {
	cluster *Cluster
	node    *fleet.Node
}

// Node returns a node. It panics if no node has that name.
func (c *Cluster) Node(name string) *Node {
	node := c.fleet.Node(name)
	if node == nil {
		panic("clustertest: there is no node " + name)
	}
	return &Node{cluster: c, node: node}
}

// Kill ends the node's agent as SIGKILL does. Its containers keep running, and their changes are not reported.
func (n *Node) Kill() { n.node.Kill() }

// PowerOff switches the machine off: the agent and all containers end at once. Its files stay.
func (n *Node) PowerOff() error { return n.node.PowerOff() }

// Partition cuts the connection between the node and the API server for a duration, in both directions: requests hang and
// fail. The containers keep running, and their statuses are reported afterwards. It returns at once.
func (n *Node) Partition(d time.Duration) { n.node.Partition(d, fleet.Dropped) }

// Start starts the agent after Kill or PowerOff. It does not wait until the node is ready.
func (n *Node) Start() error { return n.node.Start() }

// Delete switches the machine off and deletes its Node, as a cloud provider does when it removes a machine.
func (n *Node) Delete(ctx context.Context) error {
	if err := n.PowerOff(); err != nil {
		return err
	}
	err := n.cluster.kube.CoreV1().Nodes().Delete(ctx, n.node.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
