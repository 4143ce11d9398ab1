// Package clustertest gives tests for controllers, operators and schedulers a cluster whose pods really run: each node has
// podsync's agent, which decides as a kubelet does, and a container runtime in memory.
//
// By default everything is in memory, so that a test in a testing/synctest bubble runs in virtual time: an hour of
// back-offs takes no time.
//
//	func TestController(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			c := clustertest.Start(t, clustertest.Config{Nodes: 3})
//			go mycontroller.Run(t.Context(), c.Clientset())
//			c.Apply(t, "testdata/job.yaml")
//			c.WaitFor(t, "default/job-0", clustertest.Ready, time.Minute)
//			c.Node("n2").Kill()
//			c.WaitFor(t, "default/job-0", clustertest.Succeeded, time.Hour)
//			c.NoDoubleRuns(t)
//		})
//	}
//
// With a Config.RESTConfig the nodes join any API server's cluster, such as envtest, in real time.
//
// # What runs
//
// A container runs package critest's command language, or a program in Config.Programs. Any other command is a
// server, which runs until it is stopped and answers probes. Pods have addresses, logs, volumes, probes, hooks, init
// containers, sidecars, restarts with back-off, and grace periods.
//
// # What does not
//
// The API server in memory is client-go's ObjectTracker with corrections. It validates and authorizes nothing, and sets
// defaults only for pods, unless Config.Scheme's functions set more. It has no admission: a pod gets a token only if
// it declares a token volume itself. No Kubernetes controller runs: a test must start the controllers for Jobs and
// Deployments, and the garbage collector, itself. A small binder replaces the scheduler, and deletes the pods of nodes that no
// longer exist after 40 s.
package clustertest

// The files:
//
//	clustertest.go  Config, Start
//	apply.go        manifests
//	wait.go         WaitFor and its failure messages
//	node.go         nodes are killed, switched off and started; pod.go exits, OOM kills and exec in pods
//	double.go       NoDoubleRuns

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/podsync/podsync/modules/cluster/internal/binder"
	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/internal/gate"
	"github.com/podsync/podsync/modules/cluster/internal/tracked"
	"github.com/podsync/podsync/runtime/cri/critest"
)

// Config describes a cluster. The zero value is an API server in memory and one node, n1.
type Config struct {
	// Nodes is how many nodes there are at the start: n1, n2 and so on. Default 1; -1 means none.
	Nodes int
	// Programs are commands by name, for containers and exec. If neither a container nor its image has a command, it
	// runs the program with its image's name.
	Programs map[string]critest.Program
	// Registry has the images that can be pulled. Default: every image, without delay.
	Registry []critest.RemoteImage
	// RESTConfig configures a client of the API server that the nodes join. It needs all nodes' permissions.
	// Default: an API server in memory.
	RESTConfig *rest.Config
	// Scheme has the kinds that the API server in memory serves. Default: client-go's kinds.
	Scheme *runtime.Scheme
	// NoBinder leaves pods without a node name unbound, for a test that runs a scheduler. Default: a binder binds them.
	NoBinder bool
}

// A Cluster is a test's running cluster. Its methods may be called concurrently.
type Cluster struct {
	// APIServer controls the API server for nodes and controllers.
	APIServer *APIServer

	rest  *rest.Config
	kube  kubernetes.Interface
	fleet *fleet.Fleet
	pods  *podRecorder
}

// quiet removes client-go's error handlers: they space errors by the time of the last one in the whole process, so that
// an informer in a bubble would sleep for years after an error outside the bubble.
var quiet = sync.OnceFunc(func() { utilruntime.ErrorHandlers = nil })

// Start starts a cluster that ends with the test. In a testing/synctest bubble, call it with the bubble's T. It
// returns when all nodes are ready.
func Start(t testing.TB, c Config) *Cluster {
	t.Helper()
	quiet()
	cluster := &Cluster{}
	cluster.connect(t, c)
	var err error
	if cluster.kube, err = kubernetes.NewForConfig(cluster.rest); err != nil {
		t.Fatal(err)
	}
	cluster.fleet, err = fleet.New(fleet.Config{
		Kube: cluster.kube, Dir: t.TempDir(), Runtime: critest.Config{Programs: c.Programs, Registry: c.Registry},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	cluster.pods = newPodRecorder(cluster.kube)
	parts := []func(context.Context){cluster.pods.run}
	if !c.NoBinder {
		b, err := binder.New(cluster.kube)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, b.Run)
	}
	run(t, parts)
	nodes := max(c.Nodes, 0)
	if c.Nodes == 0 {
		nodes = 1
	}
	for i := range nodes {
		cluster.add(t, NodeSpec{Name: fmt.Sprintf("n%d", i+1)})
	}
	for i := range nodes {
		cluster.awaitNode(t, fmt.Sprintf("n%d", i+1))
	}
	return cluster
}

// run runs functions until the test ends.
func run(t testing.TB, parts []func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(func() { part(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// connect creates the API server in memory, or the connection to RESTConfig's server.
func (c *Cluster) connect(t testing.TB, config Config) {
	t.Helper()
	if config.RESTConfig != nil {
		c.APIServer = &APIServer{}
		c.rest = rest.CopyConfig(config.RESTConfig)
		c.rest.Wrap(func(next http.RoundTripper) http.RoundTripper {
			g := gate.New(next, tracked.VerbAndResource)
			c.APIServer.add(g)
			return fleet.Transport(g)
		})
		c.rest.QPS = -1
		return
	}
	if config.Scheme == nil {
		config.Scheme = scheme.Scheme
	}
	g := gate.New(&tracked.Server{Store: tracked.New(config.Scheme), Proxy: http.HandlerFunc(c.proxy)}, tracked.VerbAndResource)
	c.APIServer = &APIServer{gates: []*gate.Gate{g}}
	c.rest = &rest.Config{Host: "http://clustertest", Transport: fleet.Transport(g), QPS: -1}
	kube, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, v1.NamespaceNodeLease} {
		_, err := kube.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Clientset returns an API server client, without a rate limit.
func (c *Cluster) Clientset() kubernetes.Interface { return c.kube }

// RESTConfig returns the configuration for clients of the API server, for controller-runtime and dynamic clients.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// proxy answers pods/log through the pod's node.
func (c *Cluster) proxy(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // api/v1/namespaces/NS/pods/NAME/log
	if len(parts) != 7 {
		http.NotFound(w, r)
		return
	}
	pod, err := c.kube.CoreV1().Pods(parts[3]).Get(r.Context(), parts[5], metav1.GetOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	node, container := c.fleet.Node(pod.Spec.NodeName), r.URL.Query().Get("container")
	if container == "" && len(pod.Spec.Containers) > 0 {
		container = pod.Spec.Containers[0].Name
	}
	if node == nil {
		http.Error(w, "the pod is on no node of the test", http.StatusNotFound)
		return
	}
	passed := r.Clone(r.Context())
	query := r.URL.Query()
	query.Del("container")
	passed.URL = &url.URL{Path: filepath.ToSlash(filepath.Join("/containerLogs", parts[3], parts[5], container)), RawQuery: query.Encode()}
	passed.RequestURI, passed.Method = passed.URL.RequestURI(), http.MethodGet
	node.Serve(w, passed)
}

// An APIServer is a Cluster's API server.
type APIServer struct {
	mu    sync.Mutex
	gates []*gate.Gate
}

func (a *APIServer) add(g *gate.Gate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gates = append(a.gates, g)
}

// Unavailable refuses connections for a time from now on, and breaks open watches, for all clients that use the
// Cluster's Clientset or RESTConfig, which includes the nodes and WaitFor. It returns at once.
func (a *APIServer) Unavailable(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.gates {
		g.Unavailable(d)
	}
}
