package fleet

import (
	"context"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/cluster/admission"
	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/modules/cluster/pods"
	"github.com/podsync/podsync/modules/cluster/status"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/source"
)

// runtimeName is the name that the runtimes report.
const runtimeName = "critest"

// observeInterval is the Interval of a node. It is long, because a node's machine in memory does not change. The agent
// reports changes to the runtime and of the Node object without waiting for it.
const observeInterval = 30 * time.Second

// An agentRun is one run of an agent, from its start to its end.
type agentRun struct {
	node       *Node
	client     *cri.Client
	nodeObject *node.Node
	source     *pods.Source
	statuses   *status.Manager
	agent      *agent.Agent
	// local and remote serve the node's API: local for the API server in this process, which has authorized the requests,
	// and remote for other callers.
	local, remote http.Handler

	*critest.AgentRun
}

// startAgent starts an agent.
func (n *Node) startAgent() (*agentRun, error) {
	r := &agentRun{node: n, AgentRun: n.Runtime.NewAgentRun(n.root())}
	r.client = cri.NewClient(r.Conn)
	if err := r.create(); err != nil {
		r.Stop()
		return nil, err
	}
	r.Go(func(ctx context.Context) { r.statuses.Run(r.context(ctx)) })
	r.Go(func(ctx context.Context) { r.nodeObject.Run(r.context(ctx)) })
	r.Go(func(ctx context.Context) {
		if err := r.agent.Run(r.context(ctx)); err != nil && ctx.Err() == nil {
			n.fleet.config.Log.Error(err, "The agent has ended", "node", n.Name)
		}
	})
	return r, nil
}

// create creates the agent's parts. It starts nothing.
func (r *agentRun) create() (err error) {
	n, f := r.node, r.node.fleet
	capacity := n.capacity()
	allocatable := node.Allocatable(capacity)
	r.nodeObject, err = node.New(node.Config{
		Kube: f.config.Kube, Watch: f.nodeWatch, Runtime: r.client, Name: n.Name, IPs: func() []netip.Addr { return []netip.Addr{n.ip} }, Port: f.config.Port,
		Labels: n.Labels, Taints: n.Taints, Capacity: capacity, Allocatable: allocatable,
		Machine: node.Machine{ID: n.Name, SystemUUID: n.Name, BootID: n.Name, Kernel: "0", OS: "critest"}, Events: f.events, Log: f.config.Log,
		Interval: observeInterval,
	})
	if err != nil {
		return err
	}
	r.source, err = pods.New(pods.Config{
		Kube: f.config.Kube, Watch: f.podWatch, NodeName: n.Name, After: r.nodeObject.Registered(), Log: f.config.Log,
		Refused: func(pod *v1.Pod, err error) { r.statuses.Refused(pod, err) },
	})
	if err != nil {
		return err
	}
	if r.statuses, err = status.New(status.Config{Kube: f.config.Kube, Pods: r.source, Writers: 1, Log: f.config.Log}); err != nil {
		return err
	}
	r.source.Watch(r.statuses.PodChanged)
	allocator, err := resize.New(resize.Config{State: filepath.Join(n.root(), "allocations"), Allocatable: allocatable, Log: f.config.Log})
	if err != nil {
		return err
	}
	c := agent.Config{
		Client: r.client, Root: n.root(), Sources: []source.Source{r.source}, NodeName: n.Name, Log: f.config.Log,
		NoLogRotation: true, NoImageGC: true, NoEviction: true, NoOOMEvents: true, // the nodes share the test machine
		Admission: &admission.Admission{Node: r.nodeObject, NodeName: n.Name, Allocatable: allocatable, Allocated: allocator.Allocated, Reserve: allocator.Reserve},
		Sync: syncpod.Config{
			RuntimeName: runtimeName, Sink: r.statuses, Events: f.events, Objects: f.objects.Supply(),
			Extensions: syncpod.Extensions{Allocations: allocator},
			Node: syncpod.Node{
				Allocatable: capacity, LogsRoot: n.logs(), DialPod: n.Runtime.DialPod, HostIPs: func() []string { return []string{n.ip.String()} },
			},
		},
	}
	c.Finished = r.statuses.Finished
	r.agent, err = agent.New(c)
	r.local = r.newServer(alwaysAllow{}, alwaysAllow{})
	r.remote = r.newServer(f.config.Authenticator, f.config.Authorizer)
	return err
}
