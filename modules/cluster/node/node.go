package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is the part of the CRI that a Node calls. A *cri.Client implements it.
type Runtime interface {
	Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error)
	Version(context.Context, *runtimeapi.VersionRequest, ...grpc.CallOption) (*runtimeapi.VersionResponse, error)
	ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error)
}

// Config configures a Node.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// Heartbeats is an API server client that renews the lease and writes the status, so
	// that no other request delays them. Default Kube.
	Heartbeats kubernetes.Interface
	// HeartbeatFailed is called when a heartbeat has failed, such as to close connections that
	// may be dead. Default: nothing is called.
	HeartbeatFailed func()
	// Renewed is called each time that the API server has renewed the lease. It must not block.
	// Default: nothing is called.
	Renewed func()
	// Watch is the watch of Nodes that this Node shares with others of the process. The caller runs it. Default: a watch of
	// this Node's object only.
	Watch *Watch
	// Runtime is the container runtime. Required.
	Runtime Runtime
	// Name is the node's name. Required.
	Name string
	// IPs returns the node's addresses, the primary first. It is called for each heartbeat.
	// Required.
	IPs func() []netip.Addr
	// Port is the port of the node's API. Default: none.
	Port int32
	// ProviderID identifies the machine at a cloud provider. Default: none.
	ProviderID string
	// ExternalCloud is set if a cloud controller manager completes the Node: the Node has a taint until then, and gets
	// its addresses from the controller. ProvidedIPs is set if the controller should choose the addresses that IPs returns.
	ExternalCloud, ProvidedIPs bool
	// Labels and Taints are set when the object is created. An object that exists already keeps its own. A node may set
	// only some labels itself; its name's labels, OS and architecture are always set.
	Labels map[string]string
	Taints []v1.Taint

	// Capacity are the machine's resources, Allocatable those available to pods. Required; see
	// [Machine.Capacity] and [Allocatable].
	Capacity, Allocatable v1.ResourceList
	// Devices returns the number of devices of each resource of device plugins, and how many of
	// them pods can get. They are added to the resources that other components write to the Node. A resource
	// that Devices has returned once stays until Devices returns zero for it. It must not block. Default: no devices.
	Devices func() (capacity, allocatable v1.ResourceList)
	// VolumesInUse returns the attachable volumes that may be mounted on the node, which must not be detached. It must not
	// block. Default: none.
	VolumesInUse func() []v1.UniqueVolumeName
	// Machine describes the machine.
	Machine Machine

	// Interval is the longest time between two observations of the node, the kubelet's nodeStatusUpdateFrequency. While the
	// runtime answers, the node is observed at least every 30 s. A change that an observation finds is written at once.
	// Default 10 s.
	Interval time.Duration
	// ReportInterval is the longest time between two writes of an unchanged status, the kubelet's nodeStatusReportFrequency.
	// Default 5 min.
	ReportInterval time.Duration
	// LeaseDuration is the lease's duration, which is renewed after a quarter of it. Default 40 s.
	LeaseDuration time.Duration
	// MaxImages limits the images in the status, the largest first; -1 means all.
	// Default 50.
	MaxImages *int
	// Pressure returns the conditions MemoryPressure, DiskPressure and PIDPressure, as in an
	// agent.Agent.Pressure; none if they are unknown. Default: there is no pressure.
	Pressure func() []v1.NodeCondition
	// NotReady returns the reason why the node is not ready although its runtime is, and "" if it is ready. Default: only
	// the runtime counts.
	NotReady func() string
	// Events records the agent's start, reboots, and changes to the node's conditions.
	// Default: no events.
	Events Recorder
	// Log receives a line for each change and error. Default: no log.
	Log logr.Logger
}

// A Node is the agent's node. Its methods may be called concurrently.
type Node struct {
	config Config
	nodes  *Watch

	mu sync.Mutex
	// object is the newest known version of the Node, nil before the registration.
	object *v1.Node
	// reported is the time when its status was written last.
	reported time.Time
	// registered is closed after the registration.
	registered chan struct{}
	// deleted has a value while the object must be created again.
	deleted chan struct{}
	// runtime is the last known state of the runtime. changed has a value if the state must be reported immediately.
	runtime runtimeState
	changed chan struct{}
	// runtimeRead is closed once Status' first call has returned.
	runtimeRead chan struct{}
	// unschedulable means that the last recorded event reports the node as cordoned. Only the heartbeat uses it.
	unschedulable bool

	// awaited are ReportAndWait's calls, whose channels the next write closes.
	awaited map[chan struct{}]bool

	// runCtx is Run's context, set after the registration.
	runCtx context.Context
	// reading is held while the Node is read for a new pod. nextRead is the earliest time of the
	// next read.
	reading  sync.Mutex
	nextRead time.Time
}

// New returns a Node that is not registered yet.
func New(c Config) (*Node, error) {
	switch {
	case c.Kube == nil:
		return nil, errors.New("node: Config.Kube is missing")
	case c.Runtime == nil:
		return nil, errors.New("node: Config.Runtime is missing")
	case c.Name == "":
		return nil, errors.New("node: Config.Name is missing")
	case c.IPs == nil:
		return nil, errors.New("node: Config.IPs is missing")
	case c.Capacity == nil || c.Allocatable == nil:
		return nil, errors.New("node: Config.Capacity or Allocatable is missing")
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
		def   time.Duration
	}{
		{"Interval", &c.Interval, 10 * time.Second},
		{"ReportInterval", &c.ReportInterval, 5 * time.Minute},
		{"LeaseDuration", &c.LeaseDuration, 40 * time.Second},
	} {
		if *d.field < 0 {
			return nil, fmt.Errorf("node: Config.%s is %v, want 0 or more", d.name, *d.field)
		}
		*d.field = cmp.Or(*d.field, d.def)
	}
	if c.MaxImages == nil {
		c.MaxImages = new(50)
	}
	if c.Heartbeats == nil {
		c.Heartbeats = c.Kube
	}
	if c.Renewed == nil {
		c.Renewed = func() {}
	}
	if c.HeartbeatFailed == nil {
		c.HeartbeatFailed = func() {}
	}
	if c.Devices == nil {
		c.Devices = func() (capacity, allocatable v1.ResourceList) { return nil, nil }
	}
	if c.NotReady == nil {
		c.NotReady = func() string { return "" }
	}
	if c.Pressure == nil {
		c.Pressure = func() []v1.NodeCondition { return nil }
	}
	nodes := c.Watch
	if nodes == nil {
		nodes = newWatch(c.Kube, fields.OneTermEqualSelector("metadata.name", c.Name))
	}
	return &Node{config: c, nodes: nodes, registered: make(chan struct{}), deleted: make(chan struct{}, 1), changed: make(chan struct{}, 1), runtimeRead: make(chan struct{}), awaited: map[chan struct{}]bool{}}, nil
}

// Run registers the node, and sends its heartbeats until ctx ends. It must be called only once.
func (n *Node) Run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { n.watchRuntime(ctx) })
	if !n.register(ctx) {
		return
	}
	n.runCtx = ctx
	close(n.registered)
	parts.Go(func() { n.renewLease(ctx) })
	defer n.watch()()
	if n.config.Watch == nil {
		parts.Go(func() { n.nodes.Run(ctx) })
	}
	n.awaitRuntime(ctx)
	n.heartbeat(ctx)
}

// Report makes the node write its status at once if the status has changed, for example NotReady's result. It does not
// block.
func (n *Node) Report() {
	select {
	case n.changed <- struct{}{}:
	default: // a write is pending already
	}
}

// ReportAndWait calls Report, and waits until the API server has a status that was read after the call. Failed writes are
// retried until ctx ends; ReportAndWait then returns the cause.
func (n *Node) ReportAndWait(ctx context.Context) error {
	written := make(chan struct{})
	n.mu.Lock()
	n.awaited[written] = true
	n.mu.Unlock()
	n.Report()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.awaited, written)
	return context.Cause(ctx)
}

// Registered returns a channel that is closed once the node is registered.
func (n *Node) Registered() <-chan struct{} { return n.registered }

// IsRegistered reports whether the node is registered.
func (n *Node) IsRegistered() bool {
	select {
	case <-n.registered:
		return true
	default:
		return false
	}
}

// Object returns the last known version of the Node, or before the registration the object to be
// registered. The caller must not modify it.
func (n *Node) Object() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.object != nil {
		return n.object
	}
	return n.initial()
}

// observe stores a version of the Node unless a newer one is known: a cache of the API server may lag
// behind. If another client has written the condition Ready, for example the node lifecycle controller while the node was cut
// off, the node reports its own at once.
func (n *Node) observe(object *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.object; known != nil && known.UID == object.UID {
		if order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, known.ResourceVersion); err == nil && order < 0 {
			return
		}
		if readiness(known) != readiness(object) {
			n.overwritten()
		}
	}
	n.object = object
}

// overwritten makes the node write its Ready condition, unless it did so lately. It is called with mu held.
func (n *Node) overwritten() {
	if time.Since(n.reported) >= overwrittenPause {
		n.Report()
	}
}

// readiness returns the status of the condition Ready.
func readiness(node *v1.Node) v1.ConditionStatus {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status
		}
	}
	return ""
}
