package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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

// observeInterval is the longest time between two observations of a node by its agent. It is long, because the machine of a node
// in memory does not change. What the runtime, the API server or a partition changes, the agent reports without this interval.
const observeInterval = time.Minute

// An agentRun is one run of an agent, from its start to its end.
type agentRun struct {
	node     *Node
	client   *cri.Client
	object   *node.Node
	source   *pods.Source
	statuses *status.Manager
	loop     *agent.Agent
	// local and remote serve the node's API: local for the API server in this process, which has authorized the requests,
	// and remote for other callers.
	local, remote http.Handler

	*critest.AgentRun
}

// startAgent starts an agent.
func (n *Node) startAgent() (*agentRun, error) {
	l := &agentRun{node: n, AgentRun: n.Runtime.NewAgentRun(n.root())}
	l.client = cri.NewClient(timedConn{l.Conn})
	if err := l.make(); err != nil {
		l.Stop()
		return nil, err
	}
	l.Go(func(ctx context.Context) { l.statuses.Run(l.context(ctx)) })
	l.Go(func(ctx context.Context) { l.object.Run(l.context(ctx)) })
	l.Go(func(ctx context.Context) {
		if err := l.loop.Run(l.context(ctx)); err != nil && ctx.Err() == nil {
			n.fleet.config.Log.Error(err, "The agent has ended", "node", n.Name)
		}
	})
	return l, nil
}

// make creates the parts of the agent. It starts nothing.
func (l *agentRun) make() (err error) {
	n, f := l.node, l.node.fleet
	capacity := n.capacity()
	allocatable := node.Allocatable(capacity)
	l.object, err = node.New(node.Config{
		Kube: f.config.Kube, Watch: f.nodeWatch, Runtime: l.client, Name: n.Name, IPs: func() []netip.Addr { return []netip.Addr{n.ip} }, Port: f.config.Port,
		Labels: n.Labels, Taints: n.Taints, Capacity: capacity, Allocatable: allocatable,
		Machine: node.Machine{ID: n.Name, SystemUUID: n.Name, BootID: n.Name, Kernel: "0", OS: "critest"}, Events: f.events, Log: f.config.Log,
		Interval: observeInterval,
	})
	if err != nil {
		return err
	}
	l.source, err = pods.New(pods.Config{
		Kube: f.config.Kube, Watch: f.podWatch, NodeName: n.Name, After: l.object.Registered(), Log: f.config.Log,
		Refused: func(pod *v1.Pod, err error) { l.statuses.Refused(pod, err) },
	})
	if err != nil {
		return err
	}
	if l.statuses, err = status.New(status.Config{Kube: f.config.Kube, Pods: l.source, Writers: 1, Log: f.config.Log}); err != nil {
		return err
	}
	l.source.Watch(l.statuses.PodChanged)
	allocator, err := resize.New(resize.Config{State: filepath.Join(n.root(), "allocations"), Allocatable: allocatable, Log: f.config.Log})
	if err != nil {
		return err
	}
	c := agent.Config{
		Client: l.client, Root: n.root(), Sources: []source.Source{l.source}, NodeName: n.Name, Log: f.config.Log,
		NoLogRotation: true, NoImageGC: true, NoEviction: true, NoOOMEvents: true, // the nodes share the test machine
		Admission: &admission.Admission{Node: l.object, NodeName: n.Name, Allocatable: allocatable, Allocated: allocator.Allocated, Reserve: allocator.Reserve},
		Sync: syncpod.Config{
			RuntimeName: runtimeName, Sink: l.statuses, Events: f.events, Objects: f.objects.Supply(),
			Extensions: syncpod.Extensions{Allocations: allocator},
			Node: syncpod.Node{
				Allocatable: capacity, LogsRoot: n.logs(), DialPod: n.Runtime.DialPod, HostIPs: func() []string { return []string{n.ip.String()} },
			},
		},
	}
	c.Workers.Observer = l.statuses
	l.loop, err = agent.New(c)
	l.local = l.newServer(alwaysAllow{}, alwaysAllow{})
	l.remote = l.newServer(f.config.Authenticator, f.config.Authorizer)
	return err
}

// A timedConn is the connection of an agent to its runtime, with the timeouts of a kubelet.
type timedConn struct{ grpc.ClientConnInterface }

// Invoke makes a call.
func (c timedConn) Invoke(ctx context.Context, method string, request, reply any, opts ...grpc.CallOption) error {
	invoke := func(ctx context.Context, method string, request, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		return c.ClientConnInterface.Invoke(ctx, method, request, reply, opts...)
	}
	return cri.Timeouts{}.Interceptor()(ctx, method, request, reply, nil, invoke, opts...)
}

func (l *agentRun) exec(ctx context.Context, id string, command []string) ([]byte, error) {
	answer, err := l.client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command})
	if err != nil {
		return nil, err
	}
	if answer.ExitCode != 0 {
		err = fmt.Errorf("%q ended with exit code %d: %s", command, answer.ExitCode, answer.Stderr)
	}
	return answer.Stdout, err
}

// Containers returns the current IDs of the containers of a pod, by name.
func (n *Node) Containers(ctx context.Context, uid types.UID) (map[string]string, error) {
	l := n.currentRun()
	if l == nil {
		return nil, errors.New("the agent of node " + n.Name + " does not run")
	}
	list, err := l.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(uid)},
	}})
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, c := range list.Containers {
		ids[c.Metadata.GetName()] = c.Id
	}
	return ids, nil
}
