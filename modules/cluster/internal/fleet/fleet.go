// Package fleet runs many nodes in one process: each has a container runtime in memory and a whole agent. All of them
// share the connections to the API server, the watches on pods, Nodes, ConfigMaps, Secrets,
// Services and runtime classes, and the event recorder.
package fleet

// The files:
//
//	fleet.go        Fleet: the parts that nodes share
//	node.go         Node: a machine that is switched on and off, and whose agent is killed and started
//	agent_run.go    one run of an agent, from its start to its end
//	partition.go    nodes that lose their connection to the API server
//	serve.go        the requests that an API server sends to nodes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/modules/cluster/objects"
	"github.com/podsync/podsync/modules/cluster/pods"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/server"
)

// rememberedEvents is the number of events that the recorder of all nodes compares with new ones, in order to count equal
// ones. A node of its own remembers 4,096.
const rememberedEvents = 512

// Config configures a Fleet.
type Config struct {
	// Kube is the API server. Required. Its transport must be made by Transport: otherwise Node.Partition has no effect, and a
	// killed agent may send requests until its goroutines have ended.
	Kube kubernetes.Interface
	// Dir is the directory below which the nodes keep their files, an absolute path. Required.
	Dir string
	// Runtime is the common configuration of all runtimes. Each node sets its own Dir, LogsRoot and PodCIDRs.
	Runtime critest.Config
	// PodChanged is called for each pod of the nodes that is added or changed, and with gone set for each pod of any node that is
	// deleted. It may be called twice for one version of a pod. It must not block, must not call Add, and must not modify the
	// pod. Default: nothing is called.
	PodChanged func(pod *v1.Pod, gone bool)
	// Address and Port are the address at which the caller serves Handler, which requires Authenticator and Authorizer.
	// Default: each node reports its own address, and no port.
	Address       netip.Addr
	Port          int32
	Authenticator server.Authenticator
	Authorizer    server.Authorizer
	// Log receives the lines of all nodes. Default: no log.
	Log logr.Logger
}

// A Fleet has the parts that nodes share. Its methods may be called concurrently.
type Fleet struct {
	config Config
	// ctx ends with Close. parts are the goroutines that run until then.
	ctx    context.Context
	cancel context.CancelFunc
	parts  sync.WaitGroup

	objects   *objects.Objects
	podWatch  *pods.Watch
	nodeWatch *node.Watch
	events    record.EventRecorder
	flush     func()

	mu    sync.Mutex
	nodes map[string]*Node
	made  int
}

// New starts the shared parts. The caller must call Close.
func New(c Config) (*Fleet, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("fleet: Config.Kube is missing")
	case !filepath.IsAbs(c.Dir):
		return nil, fmt.Errorf("fleet: Config.Dir is %q, want an absolute path", c.Dir)
	}
	f := &Fleet{config: c, nodes: map[string]*Node{}, podWatch: pods.NewWatch(c.Kube), nodeWatch: node.NewWatch(c.Kube)}
	if c.PodChanged != nil {
		f.podWatch.ListenAll(f.podChanged)
	}
	var err error
	if f.objects, err = objects.New(objects.Config{Kube: c.Kube, Pods: f.pods, Changed: f.configsChanged}); err != nil {
		return nil, err
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	broadcaster := record.NewBroadcaster(record.WithContext(f.ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{LRUCacheSize: rememberedEvents}))
	broadcaster.StartRecordingToSink(&eventSink{EventSinkImpl: &clientv1.EventSinkImpl{Interface: c.Kube.CoreV1().Events("")}})
	f.events, f.flush = broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet"}), broadcaster.Shutdown
	for _, run := range []func(context.Context){f.objects.Run, f.podWatch.Run, f.nodeWatch.Run} {
		f.parts.Go(func() { run(f.ctx) })
	}
	return f, nil
}

// Add adds a node. Its agent does not run before Start. Pods that are bound to it already are reported to
// Config.PodChanged before Add returns.
func (f *Fleet) Add(s Spec) (*Node, error) {
	n, err := f.add(s)
	if err == nil {
		f.podWatch.Announce(s.Name)
	}
	return n, err
}

func (f *Fleet) add(s Spec) (*Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes[s.Name] != nil {
		return nil, fmt.Errorf("fleet: node %q exists", s.Name)
	}
	n, err := f.newNode(s, f.made)
	if err != nil {
		return nil, err
	}
	f.made++
	f.nodes[s.Name] = n
	return n, nil
}

// podChanged passes on the changes of pods of the fleet. A pod may be deleted after its node was removed.
func (f *Fleet) podChanged(pod *v1.Pod, gone bool) {
	if gone || f.Node(pod.Spec.NodeName) != nil {
		f.config.PodChanged(pod, gone)
	}
}

// Remove switches a node off and deletes its Node object and its files, as if the machine was lost. The pods in the API
// server remain: a cluster's pod garbage collector deletes them. The node cannot start again; its runtime can still be read.
func (f *Fleet) Remove(ctx context.Context, n *Node) error {
	f.mu.Lock()
	if f.nodes[n.Name] != n {
		f.mu.Unlock()
		return fmt.Errorf("fleet: node %q was removed", n.Name)
	}
	delete(f.nodes, n.Name)
	f.mu.Unlock()
	err := errors.Join(n.PowerOff(), n.Runtime.Close(), unmount(n.dir), os.RemoveAll(n.dir))
	deleted := f.config.Kube.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(deleted) {
		deleted = nil
	}
	return errors.Join(err, deleted)
}

// Node returns a node, nil if there is none of that name.
func (f *Fleet) Node(name string) *Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name]
}

// Nodes returns all nodes in the order in which they were added.
func (f *Fleet) Nodes() []*Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*Node
	for _, n := range f.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *Node) int { return a.index - b.index })
	return all
}

// Close stops all nodes, and returns when all goroutines have ended. It does not delete the pods in the API server. It
// leaves no mount below Config.Dir: an agent that runs as root mounts volumes with secrets.
func (f *Fleet) Close() error {
	var all sync.WaitGroup
	for _, n := range f.Nodes() {
		all.Go(n.stop)
	}
	all.Wait()
	f.cancel()
	f.parts.Wait()
	f.flush()
	var errs []error
	for _, n := range f.Nodes() {
		errs = append(errs, n.Runtime.Close())
	}
	return errors.Join(append(errs, unmount(f.config.Dir))...)
}

// unmount removes the mounts below a directory: the Secrets of pods.
func unmount(dir string) error {
	points, err := mounts.Below(dir)
	for _, point := range points {
		err = errors.Join(err, mounts.Detach(point))
	}
	return err
}

// pods returns the pods of all nodes. Objects that no pod names are not watched.
func (f *Fleet) pods() []*v1.Pod {
	var all []*v1.Pod
	for _, n := range f.Nodes() {
		if r := n.currentRun(); r != nil {
			all = append(all, r.source.Pods()...)
		}
	}
	return all
}

// configsChanged updates the files of running pods.
func (f *Fleet) configsChanged() {
	for _, n := range f.Nodes() {
		if r := n.currentRun(); r != nil {
			r.source.ConfigsChanged()
		}
	}
}

// addressOf returns the n-th node's address. podsOf returns its pods' address prefix.
func addressOf(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{172, byte(16 + n>>16), byte(n >> 8), byte(n)})
}

func podsOf(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)
}

// An eventSink gives each event a unique name: client-go derives names from the time, and in virtual time many events of
// a pod have the same time.
type eventSink struct {
	*clientv1.EventSinkImpl
	made atomic.Uint64
}

// Create creates an event.
func (s *eventSink) Create(e *v1.Event) (*v1.Event, error) {
	named := e.DeepCopy()
	named.Name = fmt.Sprintf("%s.%x", e.Name, s.made.Add(1))
	return s.EventSinkImpl.Create(named)
}
