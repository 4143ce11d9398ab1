package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/podsync/podsync/modules/cluster/config"
	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/internal/together"
	"github.com/podsync/podsync/modules/prometheus"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
)

// TestMain runs the tests, or what a test needs in its own process.
func TestMain(m *testing.M) {
	if args := os.Getenv("PODSYNC_HOSTILE_NODE"); args != "" {
		os.Exit(runAsNode(strings.Split(args, "\n")))
	}
	if os.Getenv("PODSYNC_HOSTILE_LOG") != "" {
		logHostileTexts()
		return
	}
	os.Exit(clientlog.Run(m))
}

// runAsNode runs the node as main does.
func runAsNode(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o, err := parse(args, os.Stderr)
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A site is a node with a runtime in memory, and an API server that can be unavailable. Only its disk survives a power
// loss.
type site struct {
	*testing.T
	root   string
	kube   *fake.Clientset
	server apiServer
	rt     *critest.Runtime
	conns  *bufconn.Listener
	parts  *parts
	// events receives the events. Without a channel it drops them.
	events record.FakeRecorder
	// change changes the agent before it runs.
	change func(*agent)
	off    func()
}

// An apiServer is an API server that is available or unavailable. When it becomes unavailable, all open watches end.
type apiServer struct {
	mu   sync.Mutex
	away bool
	// stranger means that the server does not authenticate the node, as after its certificate has expired.
	stranger bool
	watches  []watch.Interface
}

var errAway = errors.New("dial tcp 192.0.2.1:6443: connection refused")

func onSite(t *testing.T, test func(s *site)) {
	t.Helper()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, root: root, kube: fake.NewClientset()}
		s.kube.PrependReactor("*", "*", func(ktesting.Action) (bool, k8sruntime.Object, error) {
			if err := s.server.refusal(); err != nil {
				return true, nil, err
			}
			return false, nil, nil
		})
		s.kube.PrependWatchReactor("*", s.watch)
		test(s)
	})
}

// refusal returns the error with which the server answers each request, nil if it serves requests.
func (a *apiServer) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.away:
		return errAway
	case a.stranger:
		return apierrors.NewUnauthorized("Unauthorized")
	}
	return nil
}

// is makes the server unavailable, or available again.
func (a *apiServer) is(away bool) { a.refuses(away, false) }

// refuses makes the server unavailable, or makes it reject the node's credentials, or makes it available again.
func (a *apiServer) refuses(away, stranger bool) {
	a.mu.Lock()
	a.away, a.stranger = away, stranger
	var ended []watch.Interface
	if away || stranger {
		ended, a.watches = a.watches, nil
	}
	a.mu.Unlock()
	for _, w := range ended {
		w.Stop()
	}
}

func (s *site) watch(action ktesting.Action) (bool, watch.Interface, error) {
	if err := s.server.refusal(); err != nil {
		return true, nil, err
	}
	w, err := s.kube.Tracker().Watch(action.GetResource(), action.GetNamespace(), action.(ktesting.WatchActionImpl).ListOptions)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.watches = append(s.server.watches, w)
	return true, w, err
}

// boot starts a runtime without containers, and the agent.
func (s *site) boot() {
	s.Helper()
	s.rt, _ = critest.Start(s.T, critest.Config{Dir: s.root})
	s.conns = bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- s.rt.Serve(s.conns) }()
	conns := s.conns
	s.Cleanup(func() {
		conns.Close()
		<-served
	})
	s.run()
}

const kubeletConfiguration = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///critest.sock
resolvConf: ""
cgroupsPerQOS: false
enforceNodeAllocatable: []
`

// run starts the agent on the current runtime.
func (s *site) run() {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	client, err := cri.Dial(ctx, cri.Config{Endpoint: "unix:///critest.sock", Options: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.conns.DialContext(ctx) }),
	}})
	must.Do(s, err)
	a := &agent{
		options: options{root: s.root, name: "n1", ips: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, checkpointKey: s.file("key", "0123456789abcdef0123456789abcdef")},
		kube:    s.kube, runtime: client, podResources: newPodResourcesMetrics(),
		stats: &short{left: 8 << 30}, // the test machine may be under pressure
	}
	text := kubeletConfiguration + "podLogsDir: " + filepath.Join(s.root, "logs", "pods") + "\n"
	a.kubelet, _, err = config.Load(config.Sources{File: s.file("config.yaml", text)})
	must.Do(s, err)
	a.metrics = must.Get(prometheus.New(prometheus.Config{NodeName: a.name}))(s)
	if s.change != nil {
		s.change(a)
	}
	s.parts = must.Get(a.parts(ctx, &s.events))(s)
	ended := make(chan error, 1)
	go func() { ended <- together.Run(ctx, append(s.parts.registeredTasks(), s.parts.loop.Run)...) }()
	s.off = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("Run: %v", err)
		}
		must.Do(s, client.Close())
	})
	s.Cleanup(s.off)
}

// file writes a file of the site.
func (s *site) file(name, text string) (path string) {
	s.Helper()
	path = filepath.Join(s.root, name)
	must.Do(s, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// podOf returns a pod with an environment variable from a ConfigMap and one from a Secret.
func podOf(name, image string) *v1.Pod {
	return podtest.Pod(name, podtest.NodeName("n1"), podtest.GracePeriod(3),
		podtest.Container("app", podtest.Image(image), podtest.Script("trap 'exit 0' TERM; sleep infinity & wait"), func(c *v1.Container) {
			c.ImagePullPolicy = v1.PullIfNotPresent
			c.EnvFrom = []v1.EnvFromSource{
				{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
				{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "words"}}},
			}
		}))
}

// create creates objects in the API server.
func (s *site) create(objects ...k8sruntime.Object) {
	s.Helper()
	for _, o := range objects {
		must.Do(s, s.kube.Tracker().Add(o))
	}
}

// pod returns a pod in the API server, even while the server is unavailable; nil if it does not exist.
func (s *site) pod(name string) *v1.Pod {
	object, err := s.kube.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), "default", name)
	if err != nil {
		return nil
	}
	return object.(*v1.Pod)
}

// wantRunning checks that exactly these pods have running containers.
func (s *site) wantRunning(want ...string) {
	s.Helper()
	synctest.Wait()
	var got []string
	for _, p := range s.parts.loop.Pods() {
		if len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil {
			got = append(got, p.Pod.Name)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.Errorf("%q run, want %q\n%v", got, want, s.parts.loop.Health())
	}
}

// wantUndisturbed checks that the agent has made no changes to the containers of the pods since a position in the
// journal.
func (s *site) wantUndisturbed(since int, pods ...string) {
	s.Helper()
	for _, name := range pods {
		if changes := s.rt.Journal().After(since).Pod("uid-" + name).Changes(); len(changes) > 0 {
			s.Errorf("pod %s was disturbed:\n%v", name, changes)
		}
	}
}

func (s *site) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
