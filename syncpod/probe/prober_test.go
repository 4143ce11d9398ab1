package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	prober "github.com/podsync/podsync/syncpod/probe"
)

const uid = types.UID("u")

// commands answers exec calls by command, and records their times.
type commands struct {
	mu    sync.Mutex
	exit  map[string]int32
	errs  map[string]error
	hang  map[string]bool
	began time.Time
	calls []string // command, and the second it came
	busy  atomic.Int32
}

func (c *commands) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	name := req.GetCmd()[0]
	c.mu.Lock()
	c.calls = append(c.calls, fmt.Sprintf("%s %.0f", name, time.Since(c.began).Seconds()))
	hang, exit, err := c.hang[name], c.exit[name], c.errs[name]
	c.mu.Unlock()
	if hang {
		c.busy.Add(1)
		defer c.busy.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &runtimeapi.ExecSyncResponse{ExitCode: exit, Stdout: []byte("secret")}, err
}

func (c *commands) set(name string, code int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exit[name] = code
}

func (c *commands) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, call := range c.calls {
		if call[:len(name)] == name {
			n++
		}
	}
	return n
}

// probing is a running prober with its reports.
type probing struct {
	*testing.T
	*prober.Manager
	commands *commands
	mu       sync.Mutex
	changed  int
	events   []string
}

func inBubble(t *testing.T, f func(n *probing)) {
	synctest.Test(t, func(t *testing.T) {
		n := &probing{T: t, commands: &commands{exit: map[string]int32{}, errs: map[string]error{}, hang: map[string]bool{}, began: time.Now()}}
		p, err := prober.New(prober.Config{Exec: n.commands, Unhealthy: func(pod *v1.Pod, container string, _ prober.Kind, message string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, pod.Name+" "+container+": "+message)
		}})
		must.Do(t, err)
		n.Manager = p
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- p.Run(ctx, func(types.UID) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.changed++
			})
		}()
		synctest.Wait()
		f(n)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (n *probing) want(id string, want actions.ProbeResults) {
	n.Helper()
	synctest.Wait()
	if got := n.ProbeResults(uid)[runtime.ContainerID{Type: "x", ID: id}]; got != want {
		n.Errorf("at %v: %+v, want %+v", time.Since(n.commands.began), got, want)
	}
}

func (n *probing) wantCalls(want ...string) {
	n.Helper()
	synctest.Wait()
	n.commands.mu.Lock()
	defer n.commands.mu.Unlock()
	if !slices.Equal(n.commands.calls, want) {
		n.Errorf("calls %q, want %q", n.commands.calls, want)
	}
}

func exec(name string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{name}}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

func podOf(c v1.Container) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}}
	p.Name, p.UID = "web", uid
	return p
}

func running(ids ...string) *runtime.PodStatus {
	s := &runtime.PodStatus{UID: uid}
	for i, id := range ids {
		state := runtime.ContainerExited
		if i == len(ids)-1 {
			state = runtime.ContainerRunning
		}
		s.Containers = append(s.Containers, runtime.ContainerStatus{
			Name: "app", ID: runtime.ContainerID{Type: "x", ID: id}, Attempt: uint32(i), State: state, StartedAt: time.Now(),
		})
	}
	return s
}

func TestThresholds(t *testing.T) {
	inBubble(t, func(n *probing) {
		ready := exec("ready")
		ready.SuccessThreshold = 2
		n.Observe(podOf(v1.Container{Name: "app", LivenessProbe: exec("alive"), ReadinessProbe: ready}), running("a"), false)
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeSuccess})
		time.Sleep(11 * time.Second) // a second after each check
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeSuccess, Readiness: actions.ProbeSuccess})
		n.commands.set("alive", 1)
		time.Sleep(20 * time.Second) // two failures, and not three in a row
		n.commands.set("alive", 0)
		time.Sleep(10 * time.Second)
		n.commands.set("alive", 7)
		time.Sleep(20 * time.Second)
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeSuccess, Readiness: actions.ProbeSuccess})
		time.Sleep(10 * time.Second)
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeFailure, Readiness: actions.ProbeSuccess})
		if n.changed != 3 {
			t.Errorf("%d changes were reported, want 3", n.changed)
		}
		if want := "web app: Liveness probe failed: the command ended with exit code 7"; len(n.events) != 5 || n.events[4] != want {
			t.Errorf("events %q, the last should be %q", n.events, want)
		}
		before := n.commands.count("alive")
		time.Sleep(time.Minute)
		if n.commands.count("alive") != before {
			t.Error("a container that is to be stopped is probed for liveness")
		}
	})
}

// B4: the clock was set back after the container had started.
func TestB4_StartInTheFutureDelaysNoProbe(t *testing.T) {
	inBubble(t, func(n *probing) {
		late := exec("alive")
		late.InitialDelaySeconds = 5
		started := running("a")
		started.Containers[0].StartedAt = time.Now().Add(time.Hour)
		n.Observe(podOf(v1.Container{Name: "app", StartupProbe: exec("started"), LivenessProbe: late}), started, false)
		time.Sleep(6 * time.Second)
		n.wantCalls("started 0", "alive 5")
	})
}

func TestStartupComesFirst(t *testing.T) {
	inBubble(t, func(n *probing) {
		n.commands.set("started", 1)
		startup := exec("started")
		startup.PeriodSeconds, startup.FailureThreshold = 2, 10
		n.Observe(podOf(v1.Container{Name: "app", StartupProbe: startup, LivenessProbe: exec("alive"), ReadinessProbe: exec("alive")}), running("a"), false)
		time.Sleep(5 * time.Second)
		n.want("a", actions.ProbeResults{})
		n.commands.set("started", 0)
		time.Sleep(time.Second + time.Millisecond)
		n.want("a", actions.ProbeResults{Startup: actions.ProbeSuccess, Liveness: actions.ProbeSuccess, Readiness: actions.ProbeSuccess})
		n.wantCalls("started 0", "started 2", "started 4", "started 6", "alive 6", "alive 6")
	})
}

// T5: the startup probe of an instance that an earlier agent has reported as started is not repeated; that of another instance is.
func TestT5_StartupIsNotRepeatedByTheNextAgent(t *testing.T) {
	for id, want := range map[string][]string{"x://a": {"alive 0"}, "x://b": {"started 0", "alive 0"}} {
		inBubble(t, func(n *probing) {
			pod := podOf(v1.Container{Name: "app", StartupProbe: exec("started"), LivenessProbe: exec("alive")})
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", ContainerID: id, Started: new(true)}}
			n.Observe(pod, running("a"), false)
			time.Sleep(time.Second)
			n.want("a", actions.ProbeResults{Startup: actions.ProbeSuccess, Liveness: actions.ProbeSuccess})
			n.wantCalls(want...)
		})
	}
}

// Unset fields of a probe have the API's defaults: 10 s, 1 s, one success, three failures.
func TestDefaults(t *testing.T) {
	inBubble(t, func(n *probing) {
		n.commands.hang["hangs"] = true
		alive, ready := &v1.Probe{ProbeHandler: exec("hangs").ProbeHandler, InitialDelaySeconds: 1}, &v1.Probe{ProbeHandler: exec("ready").ProbeHandler}
		n.Observe(podOf(v1.Container{Name: "app", LivenessProbe: alive, ReadinessProbe: ready}), running("a"), false)
		n.want("a", actions.ProbeResults{Readiness: actions.ProbeSuccess})
		time.Sleep(23 * time.Second)
		n.want("a", actions.ProbeResults{Readiness: actions.ProbeSuccess})
		time.Sleep(2 * time.Second)
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeFailure, Readiness: actions.ProbeSuccess})
		n.wantCalls("ready 0", "hangs 1", "ready 10", "hangs 12", "ready 20", "hangs 23")
	})
}

func TestInitialDelayAndPeriod(t *testing.T) {
	inBubble(t, func(n *probing) {
		ready := exec("ready")
		ready.InitialDelaySeconds, ready.PeriodSeconds = 7, 4
		pod := podOf(v1.Container{Name: "app", ReadinessProbe: ready})
		n.Observe(pod, running("a"), false)
		time.Sleep(9 * time.Second)
		n.Observe(pod, running("a"), false) // changes nothing
		time.Sleep(8 * time.Second)
		n.wantCalls("ready 7", "ready 11", "ready 15")
	})
}

// A new instance of a container starts without probe results.
func TestResultsAreOfAnInstance(t *testing.T) {
	inBubble(t, func(n *probing) {
		n.commands.set("alive", 1)
		pod := podOf(v1.Container{Name: "app", LivenessProbe: exec("alive")})
		n.Observe(pod, running("a"), false)
		time.Sleep(25 * time.Second)
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeFailure})
		n.commands.set("alive", 0)
		n.Observe(pod, running("a", "b"), false)
		n.want("a", actions.ProbeResults{})
		n.want("b", actions.ProbeResults{Liveness: actions.ProbeSuccess})
		ended := running("a", "b")
		ended.Containers[1].State = runtime.ContainerExited
		n.Observe(pod, ended, false)
		n.want("b", actions.ProbeResults{})
	})
}

// I6: while its pod ends, a container is probed for readiness alone.
func TestI6_EndingPodIsProbedForReadinessAlone(t *testing.T) {
	inBubble(t, func(n *probing) {
		pod := podOf(v1.Container{Name: "app", LivenessProbe: exec("alive"), ReadinessProbe: exec("ready")})
		n.Observe(pod, running("a"), false)
		synctest.Wait()
		n.Observe(pod, running("a"), true)
		n.commands.set("alive", 1)
		n.commands.set("ready", 1)
		time.Sleep(time.Minute)
		n.want("a", actions.ProbeResults{Readiness: actions.ProbeFailure})
	})
}

// A probe that hangs fails after its timeout. A probe that cannot run has no result.
func TestTimeoutsAndUnknowns(t *testing.T) {
	inBubble(t, func(n *probing) {
		n.commands.hang["hangs"] = true
		n.commands.errs["breaks"] = errors.New("the runtime has an error that may be secret")
		alive := exec("hangs")
		alive.FailureThreshold = 1
		n.Observe(podOf(v1.Container{Name: "app", LivenessProbe: alive, ReadinessProbe: exec("breaks")}), running("a"), false)
		time.Sleep(900 * time.Millisecond)
		n.want("a", actions.ProbeResults{})
		time.Sleep(time.Minute)
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeFailure})
		const errored = "web app: Readiness probe errored and resulted in unknown state: the command could not be run: "
		failures := slices.DeleteFunc(slices.Clone(n.events), func(e string) bool { return strings.HasPrefix(e, errored) })
		if want := []string{"web app: Liveness probe failed: no answer within 1s"}; !slices.Equal(failures, want) {
			t.Errorf("events %q, want %q", failures, want)
		}
	})
}

// The runtime has the timeout of an exec probe, too. If it reports the end of that time before the agent's context ends, the
// probe has failed all the same: without a result, a liveness probe that hangs would restart nothing.
func TestTimeoutThatTheRuntimeReports(t *testing.T) {
	inBubble(t, func(n *probing) {
		n.commands.errs["hangs"] = status.Error(codes.DeadlineExceeded, "command timed out")
		alive := exec("hangs")
		alive.FailureThreshold = 1
		n.Observe(podOf(v1.Container{Name: "app", LivenessProbe: alive}), running("a"), false)
		time.Sleep(time.Minute)
		n.want("a", actions.ProbeResults{Liveness: actions.ProbeFailure})
		if want := []string{"web app: Liveness probe failed: no answer within 1s"}; !slices.Equal(n.events, want) {
			t.Errorf("events %q, want %q", n.events, want)
		}
	})
}

// A command that does not exist has no result, as in a kubelet, and is reported at each check (kubernetes #106682). A runtime
// that is unavailable is reported by the node's conditions.
func TestT11_CommandThatCannotRunIsReported(t *testing.T) {
	inBubble(t, func(n *probing) {
		n.commands.errs["missing"] = status.Error(codes.Unknown, `exec: "secret": executable file not found`)
		n.commands.errs["away"] = status.Error(codes.Unavailable, "connection refused")
		n.Observe(podOf(v1.Container{Name: "app", LivenessProbe: exec("missing"), ReadinessProbe: exec("away")}), running("a"), false)
		time.Sleep(900 * time.Millisecond)
		n.want("a", actions.ProbeResults{})
		if len(n.events) != 1 || !strings.HasPrefix(n.events[0], "web app: Liveness probe errored and resulted in unknown state: ") || strings.Contains(n.events[0], "secret") {
			t.Errorf("events %q, want one of the command, without the text of the runtime", n.events)
		}
	})
}

// A probe that cannot be carried out, here because the container has no port of that name, has no result, as in a kubelet:
// it is reported, and no container is killed for it (kubernetes #139283).
func TestT11_ProbeThatCannotBeCarriedOutHasNoResult(t *testing.T) {
	for name, h := range map[string]v1.ProbeHandler{
		`httpGet.port "web" is not a port of the container`:   {HTTPGet: &v1.HTTPGetAction{Host: "10.0.0.1", Port: intstr.FromString("web")}},
		`tcpSocket.port "web" is not a port of the container`: {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("web")}},
		`httpGet.httpHeaders[0].name`:                         {HTTPGet: &v1.HTTPGetAction{Host: "10.0.0.1", Port: intstr.FromInt32(80), HTTPHeaders: []v1.HTTPHeader{{Name: "a b"}}}},
		"it has none of exec":                                 {},
	} {
		inBubble(t, func(n *probing) {
			n.Observe(podOf(v1.Container{Name: "app", LivenessProbe: &v1.Probe{ProbeHandler: h, TimeoutSeconds: 1, PeriodSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1}}), running("a"), false)
			time.Sleep(900 * time.Millisecond)
			n.want("a", actions.ProbeResults{})
			if len(n.events) != 1 || !strings.HasPrefix(n.events[0], "web app: Liveness probe errored and resulted in unknown state: ") || !strings.Contains(n.events[0], name) {
				t.Errorf("events %q, want one with %q", n.events, name)
			}
		})
	}
}

// W11: of a pod that is forgotten, or has stopped, nothing is left; and the end of
// Run, or of a pod, ends a check under way.
func TestW11_NothingIsLeftOfAPod(t *testing.T) {
	inBubble(t, func(n *probing) {
		n.commands.hang["hangs"] = true
		alive := exec("hangs")
		alive.TimeoutSeconds = 1000
		pod := podOf(v1.Container{Name: "app", LivenessProbe: alive})
		wantIdle := func() {
			t.Helper()
			synctest.Wait()
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.commands.busy.Load() != 0 || len(n.events) > 0 {
				t.Errorf("%d checks are running, events %q, want none", n.commands.busy.Load(), n.events)
			}
		}
		n.Observe(pod, running("a"), false)
		synctest.Wait()
		n.Forget(uid)
		wantIdle()
		if got := n.ProbeResults(uid); got != nil {
			t.Errorf("results %v", got)
		}
		n.Observe(pod, running("a"), false)
		synctest.Wait()
		n.Observe(pod, &runtime.PodStatus{UID: uid}, false)
		wantIdle()
		n.Observe(pod, nil, false)
		if got := n.ProbeResults(uid); got != nil {
			t.Errorf("results %v", got)
		}
		n.Observe(pod, running("a"), false)
		synctest.Wait()
		n.wantCalls("hangs 0", "hangs 0", "hangs 0")
	})
}

// A pod may be forgotten, or the prober stop, at the moment at which a check begins.
func TestForgottenWhenACheckIsDue(t *testing.T) {
	inBubble(t, func(n *probing) {
		for range 200 {
			n.Observe(podOf(v1.Container{Name: "app", LivenessProbe: exec("alive")}), running("a"), false)
			time.Sleep(10 * time.Second)
			n.Forget(uid)
		}
	})
}

// E3: containers that are observed before Run, or between two runs, are probed once Run is called.
func TestE3_RunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &commands{began: time.Now()}
		p := must.Get(prober.New(prober.Config{Exec: c}))(t)
		n := &probing{T: t, Manager: p, commands: c}
		n.Observe(podOf(v1.Container{Name: "app", ReadinessProbe: exec("ready")}), running("a"), false)
		time.Sleep(5 * time.Second)
		n.wantCalls()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
			defer cancel()
			must.Do(t, p.Run(ctx, func(types.UID) {}))
		}
		time.Sleep(time.Minute)
		n.wantCalls("ready 5", "ready 15", "ready 17", "ready 27")
	})
}

// The first probe of a container that has run for long before the agent started is at a random time within one period.
func TestOldContainersAreSpread(t *testing.T) {
	inBubble(t, func(n *probing) {
		for i := range 50 {
			pod := podOf(v1.Container{Name: "app", ReadinessProbe: exec("ready")})
			pod.UID = types.UID(fmt.Sprint("u", i))
			status := running(fmt.Sprint("c", i))
			status.Containers[0].StartedAt = time.Now().Add(-time.Hour)
			n.Observe(pod, status, false)
		}
		time.Sleep(5 * time.Second)
		if got := n.commands.count("ready"); got == 0 || got == 50 {
			t.Errorf("%d of 50 were probed after half a period", got)
		}
		time.Sleep(5 * time.Second)
		if got := n.commands.count("ready"); got < 50 {
			t.Errorf("%d of 50 were probed after a period", got)
		}
	})
}

// A pod in the node's network is probed at the current address of the node, without another Observe.
// A slow HostIP does not block the Manager.
func TestHostNetworkIsProbedAtThePresentAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var dialed []string
		var p *prober.Manager
		node := "192.0.2.7"
		p = must.Get(prober.New(prober.Config{
			Exec: &commands{},
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dialed = append(dialed, address)
				return nil, errors.New("refused")
			},
			HostIP: func() string {
				p.ProbeResults(uid) // hangs if HostIP is called with the lock held
				mu.Lock()
				defer mu.Unlock()
				return node
			},
		}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx, func(types.UID) {}) }()
		synctest.Wait()
		ready := exec("")
		ready.ProbeHandler = v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}}
		pod := podOf(v1.Container{Name: "app", ReadinessProbe: ready})
		pod.Spec.HostNetwork = true
		p.Observe(pod, running("a"), false)
		for _, next := range []string{"192.0.2.8", ""} {
			time.Sleep(10 * time.Second)
			synctest.Wait()
			mu.Lock()
			node = next
			mu.Unlock()
		}
		time.Sleep(15 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := slices.Compact(dialed); !slices.Equal(got, []string{"192.0.2.7:80", "192.0.2.8:80", "127.0.0.1:80"}) {
			t.Errorf("dialed %q", got)
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := prober.New(prober.Config{}); err == nil {
		t.Error("a prober without Exec is made")
	}
}
