package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	clientv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/certificates"
	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/modules/cluster/internal/together"
	"github.com/podsync/podsync/modules/devices"
	"github.com/podsync/podsync/modules/otel"
	"github.com/podsync/podsync/modules/prometheus"
	"github.com/podsync/podsync/modules/systemd"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/foreign/lines"
	podstats "github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/pinning"
	"github.com/podsync/podsync/syncpod/volume"
)

// gcPercent makes the garbage collector run often, so that a settled agent uses little memory. GOGC takes precedence.
const gcPercent = 40

// An agent has the state that all parts share.
type agent struct {
	options
	kubelet *kubelet.KubeletConfiguration
	client  *certificates.Client
	kube    kubernetes.Interface
	// reviews authenticates and authorizes peers, heartbeats renews the lease and the node's status, and recorder
	// writes events. Each has a rate limit of its own, so that none of them delays another or kube.
	reviews, heartbeats, recorder kubernetes.Interface
	// heartbeatFailed closes the connections of heartbeats.
	heartbeatFailed func()
	runtime         *cri.Client
	metrics         *prometheus.Metrics
	api             *apiMetrics
	podResources    *podResourcesMetrics
	// pins gives containers exclusive CPUs and memory, according to the policies of the configuration.
	pins *pinning.Manager
	// tracing is nil if tracing is off.
	tracing *otel.Tracing
	// policy is the eviction policy. stats is the source of usage measurements; nil means the node itself.
	policy eviction.Policy
	stats  podstats.Source
	log    logr.Logger
	// systemd creates the slices of pods and delays shutdowns. logindConf is the file that raises logind's limit, "" for
	// the default.
	systemd    *systemd.Systemd
	logindConf string
	// shuttingDown is set when the machine starts to shut down.
	shuttingDown atomic.Bool

	// server is the URL of the API server. route returns the source addresses of the route to it, and interfaces all
	// addresses of the node. found is the address in use if no option sets it.
	server     string
	route      func(ctx context.Context, server string) ([]netip.Addr, error)
	interfaces func() ([]netip.Addr, error)
	found      atomic.Pointer[foundAddress]
	// devicePlugins is the directory in which device plugins expect the kubelet's socket.
	devicePlugins string
}

// newLog returns the node's log, on standard error.
func newLog() logr.Logger { return lines.Bound(klog.Background()) }

// run runs the node until ctx ends.
func run(ctx context.Context, o options) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	a := &agent{options: o, log: newLog(), route: routeTo, interfaces: interfaceAddresses, devicePlugins: devices.DefaultDirectory, api: newAPIMetrics(), podResources: newPodResourcesMetrics()}
	var warnings []string
	var err error
	if a.kubelet, warnings, err = config.Load(o.sources()); err != nil {
		return err
	}
	for _, w := range warnings {
		a.log.Info("Warning: " + w)
	}
	if err := config.CheckMachine(a.kubelet, os.DirFS("/")); err != nil {
		return err
	}
	if err := protect(a.kubelet); err != nil { // as with a kubelet, pods run without these limits
		a.log.Info("Warning: the machine refuses limits of the configuration", "err", err)
	}
	if err := volume.ShareRoot(a.root); err != nil { // pods that do not need propagation still run
		a.log.Info("Warning: volume mounts with mountPropagation or recursiveReadOnly may fail", "err", err)
	}
	if err := a.connect(); err != nil {
		return err
	}
	if a.systemd, err = systemd.New(systemd.Config{Log: a.log}); err != nil {
		return err
	}
	defer a.systemd.Close()
	if a.metrics, err = prometheus.New(prometheus.Config{NodeName: a.name}); err != nil {
		return err
	}
	return together.Run(ctx, func(ctx context.Context) error { a.client.Run(ctx); return nil }, a.start)
}

// connect creates the client of the API server. It makes no request.
func (a *agent) connect() (err error) {
	a.client, err = certificates.NewClient(certificates.ClientConfig{
		Kubeconfig: a.kubeconfig, Bootstrap: a.bootstrap, Rotate: a.kubelet.RotateCertificates, Dir: a.certDir, NodeName: a.name, RenewFailures: a.api.clientErrors, Log: a.log,
	})
	if err != nil {
		return err
	}
	main := a.client.REST()
	a.server = main.Host
	main.QPS, main.Burst = float32(*a.kubelet.KubeAPIQPS), int(a.kubelet.KubeAPIBurst)
	main.UserAgent = "podsync-node"
	main.Wrap(a.api.wrap)
	main.ContentType = "application/vnd.kubernetes.protobuf"
	main.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if len(a.ips) == 0 {
		if err := a.findAddress(); err != nil {
			return fmt.Errorf("--node-ip is missing, and not found: %w", err)
		}
	}
	return a.clientsets(main)
}

// clientsets creates the clients of the API server, each with a rate limit of its own.
func (a *agent) clientsets(main *rest.Config) (err error) {
	if a.kube, err = kubernetes.NewForConfig(main); err != nil {
		return err
	}
	if a.reviews, err = kubernetes.NewForConfig(main); err != nil {
		return err
	}
	events := rest.CopyConfig(main)
	events.QPS, events.Burst = float32(*a.kubelet.EventRecordQPS), int(a.kubelet.EventBurst)
	if events.QPS == 0 {
		events.QPS = -1 // -1 means no limit, as in a kubelet
	}
	if a.recorder, err = kubernetes.NewForConfig(events); err != nil {
		return err
	}
	timeout := min(a.kubelet.NodeStatusUpdateFrequency.Duration, seconds(a.kubelet.NodeLeaseDurationSeconds))
	heartbeat, failed := a.client.Heartbeat(timeout)
	heartbeat.UserAgent, heartbeat.ContentType, heartbeat.AcceptContentTypes = main.UserAgent, main.ContentType, main.AcceptContentTypes
	heartbeat.Wrap(a.api.wrap)
	a.heartbeatFailed = failed
	a.heartbeats, err = kubernetes.NewForConfig(heartbeat)
	return err
}

// start runs the node.
func (a *agent) start(ctx context.Context) error {
	var err error
	var end func()
	if a.tracing, end, err = a.trace(ctx); err != nil {
		return err
	}
	defer end()
	options := a.metrics.DialOptions()
	if a.tracing != nil {
		options = append(options, a.tracing.DialOptions()...)
	}
	a.runtime, err = cri.Dial(ctx, cri.Config{Endpoint: a.kubelet.ContainerRuntimeEndpoint, Options: options})
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	defer a.runtime.Close()
	return a.run(ctx)
}

// events returns a recorder of events, and a function that stops it.
func (a *agent) events(ctx context.Context) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartRecordingToSink(&clientv1.EventSinkImpl{Interface: a.recorder.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: a.name}), broadcaster.Shutdown
}

// run creates the parts, and runs them until ctx ends or one of them fails.
func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, end := a.events(ctx)
	defer end()
	p, err := a.parts(ctx, events)
	if err != nil {
		return err
	}
	a.log.Info("Started", "node", a.name, "runtime", a.runtime.RuntimeName()+"://"+a.runtime.RuntimeVersion())
	with := func(run func(context.Context, *parts) error) func(context.Context) error {
		return func(ctx context.Context) error { return run(ctx, p) }
	}
	return together.Run(ctx, p.loop.Run, a.watchAddress, a.serveHealth, with(a.delayShutdown), with(a.servePlugins), with(a.serveDrivers), with(a.mountVolumes), with(a.servePodResources), with(a.join))
}

// join registers the node, and then runs the parts that need the API server. The pod checkpoint does not need it.
func (a *agent) join(ctx context.Context, p *parts) error {
	if err := a.client.Ready(ctx); err != nil {
		return err
	}
	return together.Run(ctx, append(p.registeredTasks(), func(ctx context.Context) error { return a.serve(ctx, p) })...)
}
