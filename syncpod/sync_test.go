package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/rig/testnode"
	podruntime "github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/sandbox/run"
	"github.com/podsync/podsync/syncpod"
	podcontainer "github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
)

const podUID = "3f0c2c1e-1111-4222-8333-444455556666"

// node is a node with an agent on it.
type node struct {
	*testnode.Node
	agent
}

// agent is a Syncer with its connection. An agent restart replaces it.
type agent struct {
	*syncpod.Syncer
	conn   *critest.Conn
	images *image.Manager
	events *events
	hooks  *hooks
	logs   *logs
	report *reports
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T, n *node), adjust ...func(*critest.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config := critest.Config{}
		for _, a := range adjust {
			a(&config)
		}
		n := &node{Node: testnode.New(t, config)}
		n.restart()
		f(t, n)
	})
}

// restart replaces the agent by a new one without memory.
func (n *node) restart(adjust ...func(*syncpod.Config)) {
	n.Helper()
	if n.conn != nil {
		n.conn.Close()
	}
	logs := &logs{last: map[string]uint32{}}
	if n.agent.logs != nil {
		logs = n.agent.logs
	}
	conn, err := n.Runtime.Dial(grpc.WithChainUnaryInterceptor(cri.Timeouts{}.Interceptor()))
	n.Must(err)
	n.Cleanup(func() { conn.Close() })
	n.Client = cri.NewClient(conn)
	n.agent = agent{conn: conn, events: &events{}, hooks: &hooks{client: n.Client}, logs: logs, report: &reports{}}
	sandboxes, err := run.New(run.Config{Runtime: n.Client, MakeLogDirectory: func(string) error { return nil }})
	n.Must(err)
	n.images, err = image.New(image.Config{Settings: image.Settings{Runtime: n.Client}})
	n.Must(err)
	n.Cleanup(n.images.Wait)
	config := syncpod.Config{
		Client: n.Client, RuntimeName: "critest",
		Node: syncpod.Node{Containers: podcontainer.Node{MemoryBytes: 8 << 30}}, Events: syncpod.EventRecorderFunc(n.events.Eventf), Sink: n.report,
	}
	config.Parts = syncpod.Parts{Statuses: n.Reader(), Sandboxes: sandboxes, Images: n.images, Logs: logs, Hooks: n.hooks}
	for _, a := range adjust {
		a(&config)
	}
	n.Syncer, err = syncpod.New(config)
	n.Must(err)
}

// calling returns the connection to the runtime with other answers of its containers' and sandboxes' side.
func (n *node) calling(runtime runtimeapi.RuntimeServiceClient) *cri.Client {
	return &cri.Client{RuntimeServiceClient: runtime, ImageServiceClient: n.Client}
}

// preparerFunc is a function that prepares the node for a pod.
type preparerFunc func(ctx context.Context, pod *v1.Pod) (sandbox.Input, error)

func (f preparerFunc) PreparePod(ctx context.Context, pod *v1.Pod) (sandbox.Input, error) {
	return f(ctx, pod)
}

// hooksFunc is a function that runs handlers.
type hooksFunc func(ctx context.Context, req handler.Request) (handler.Result, error)

func (f hooksFunc) Run(ctx context.Context, req handler.Request) (handler.Result, error) {
	return f(ctx, req)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// giveUp returns a context that is cancelled after d. It has no deadline, because the runtime would
// see a deadline and could report it first.
func giveUp(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(d, cancel)
	return ctx
}

// sync runs SyncPod once, and fails the test if it fails.
func (n *node) sync(pod *v1.Pod) syncpod.Result {
	n.Helper()
	r, err := n.SyncPod(n.Context(), pod, nil)
	if err != nil {
		n.Fatalf("SyncPod: %v\n%v", err, n.Journal())
	}
	return r
}

// settle syncs until the plan is empty, at the requested times and otherwise every
// second.
func (n *node) settle(pod *v1.Pod, within time.Duration) {
	n.Helper()
	end := time.Now().Add(within)
	var err error
	var r syncpod.Result
	for !time.Now().After(end) {
		r, err = n.SyncPod(n.Context(), pod, nil)
		if err == nil && r.Plan.NoOp() {
			return
		}
		time.Sleep(time.Second)
	}
	n.Fatalf("not settled within %v: %v\n%v\n%v", within, err, r.Plan, n.Journal())
}

func (n *node) status() *podruntime.PodStatus {
	n.Helper()
	return n.Status(podUID)
}

// states returns the existing containers, such as "app 0 running".
func (n *node) states() []string {
	n.Helper()
	var all []string
	for _, c := range n.status().Containers {
		all = append(all, fmt.Sprintf("%s %d %s", c.Name, c.Attempt, c.State))
	}
	slices.Sort(all)
	return all
}

func (n *node) wantStates(want ...string) {
	n.Helper()
	if got := n.states(); !slices.Equal(got, want) {
		n.Fatalf("containers %q, want %q\n%v", got, want, n.Journal())
	}
}

// current returns the current instance of a container.
func (n *node) current(name string) *podruntime.ContainerStatus {
	n.Helper()
	c := n.status().Latest(name)
	if c == nil {
		n.Fatalf("no container %s", name)
	}
	return c
}

// exit ends a container's process.
func (n *node) exit(name string, code int32) {
	n.Helper()
	n.Must(n.ExitContainer(n.current(name).ID.ID, critest.Exit{Code: code}))
	synctest.Wait()
}

// events records events as "reason message".
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Eventf(object k8sruntime.Object, eventtype, reason, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, strings.TrimSpace(reason+" "+object.(*v1.ObjectReference).FieldPath+" "+fmt.Sprintf(format, args...)))
}

func (e *events) count(part string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, s := range e.all {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// hooks runs exec handlers over CRI.
type hooks struct {
	client *cri.Client
	mu     sync.Mutex
	calls  int
	ips    []string
}

func (h *hooks) Run(ctx context.Context, req handler.Request) (handler.Result, error) {
	h.mu.Lock()
	h.calls++
	h.ips = append(h.ips, req.PodIP)
	h.mu.Unlock()
	resp, err := h.client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: req.ContainerID, Cmd: req.Handler.Exec.Command})
	if err == nil && resp.GetExitCode() != 0 {
		err = fmt.Errorf("exit code %d", resp.GetExitCode())
	}
	return handler.Result{}, err
}

// logs are the logs on disk, which outlive agents and runtimes.
type logs struct{ last map[string]uint32 }

func (l *logs) MakeDirectory(string, string) error { return nil }

func (l *logs) LastAttempt(_, container string) (uint32, bool, error) {
	last, ok := l.last[container]
	return last, ok, nil
}

// reports records the reported statuses.
type reports struct {
	mu    sync.Mutex
	err   error
	block chan struct{}
	all   []v1.PodStatus
}

func (r *reports) SetPodStatus(ctx context.Context, _ *v1.Pod, s v1.PodStatus) error {
	r.mu.Lock()
	r.all = append(r.all, s)
	block, err := r.block, r.err
	r.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// count returns how many statuses were reported.
func (r *reports) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// last returns the last reported status.
func (r *reports) last() v1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return v1.PodStatus{}
	}
	return r.all[len(r.all)-1]
}

// container returns the last reported status of a container.
func (r *reports) container(name string) v1.ContainerStatus {
	s := r.last()
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		if c.Name == name {
			return c
		}
	}
	return v1.ContainerStatus{}
}

func testPod(change ...func(*v1.Pod)) *v1.Pod {
	grace := int64(30)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: podUID},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
			Containers: []v1.Container{ctr("app")},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func ctr(name string, command ...string) v1.Container {
	return v1.Container{Name: name, Image: "registry.test/" + name + ":1", Command: command}
}

func inits(all ...v1.Container) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.InitContainers = all }
}

func containers(all ...v1.Container) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.Containers = all }
}

func sidecar(name string, command ...string) v1.Container {
	c := ctr(name, command...)
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func exec(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

func TestStartsAPodWithInitContainers(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(inits(ctr("first", "true"), sidecar("proxy"), ctr("second", "true")))
		n.settle(pod, 10*time.Second)
		n.wantStates("app 0 running", "first 0 exited", "proxy 0 running", "second 0 exited")
		var started []string
		for _, c := range n.Journal().Of(critest.StartContainer) {
			started = append(started, c.Container)
		}
		if want := []string{"first", "proxy", "second", "app"}; !slices.Equal(started, want) {
			t.Errorf("started %v, want %v", started, want)
		}
	})
}

// oneSecret is a Secret with a password.
type oneSecret string

func (s oneSecret) Secret(context.Context, string, string) (*v1.Secret, error) {
	return &v1.Secret{Data: map[string][]byte{"password": []byte(s)}}, nil
}

// unclear are parts that fail before anything is done.
type unclear struct {
	syncpod.Sandboxes
	syncpod.StatusReader
	settle, read error
}

func (u unclear) Unresolved(types.UID) bool { return u.settle != nil }

func (u unclear) Resolve(context.Context, types.UID, string) error { return u.settle }

func (u unclear) PodStatus(context.Context, types.UID, *podruntime.PodStatus) (*podruntime.PodStatus, error) {
	return nil, u.read
}

// No call is made for a pod whose runtime status is unknown.
func TestNothingIsDoneUnseen(t *testing.T) {
	cause := errors.New("no answer")
	for name, tc := range map[string]struct {
		parts unclear
		given *podruntime.PodStatus
	}{
		"not read":             {unclear{read: cause}, nil},
		"neither":              {unclear{}, nil},
		"late sandboxes stand": {unclear{settle: cause}, &podruntime.PodStatus{UID: podUID}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				n.restart(func(c *syncpod.Config) {
					tc.parts.Sandboxes, tc.parts.StatusReader = c.Parts.Sandboxes, c.Parts.Statuses
					c.Parts.Sandboxes, c.Parts.Statuses = tc.parts, tc.parts
				})
				_, err := n.SyncPod(t.Context(), testPod(), tc.given)
				if err == nil || name != "neither" && !errors.Is(err, cause) {
					t.Errorf("error %v, want one that wraps the cause, if there is one", err)
				}
				if changes := n.Journal().Changes(); len(changes) > 0 || len(n.report.all) > 0 {
					t.Errorf("reported %+v, calls\n%v", n.report.all, changes)
				}
			})
		})
	}
}

// No event is recorded before the plan exists.
func TestNothingChangesBeforeThePlan(t *testing.T) {
	for event, tc := range map[string]struct {
		pod    func(*v1.Pod)
		change func(*node)
	}{
		syncpod.EventDeadlineExceeded: {
			pod:    func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) },
			change: func(*node) { time.Sleep(2 * time.Minute) },
		},
		syncpod.EventFailedCreatePodSandBox: {pod: func(*v1.Pod) {}, change: func(n *node) { n.address("") }},
	} {
		t.Run(event, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				decided := func() {}
				n.restart(func(c *syncpod.Config) { c.Decided = func(actions.Input, actions.Plan) { decided() } })
				pod := testPod(tc.pod)
				n.settle(pod, time.Minute)
				tc.change(n)
				recorded := func() bool {
					n.events.mu.Lock()
					defer n.events.mu.Unlock()
					return slices.ContainsFunc(n.events.all, func(e string) bool { return strings.HasPrefix(e, event) })
				}
				decided = func() {
					if recorded() {
						t.Error("the event is recorded before the plan")
					}
				}
				n.sync(pod)
				if !recorded() {
					t.Error("no event")
				}
			})
		})
	}
}
