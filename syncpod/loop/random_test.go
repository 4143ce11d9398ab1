package loop_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	podreader "github.com/podsync/podsync/runtime/reader"
	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/source"
)

// F8, F14: pods are added and removed, while calls fail, hang, or succeed with an error, events are lost, the agent is
// killed, and the runtime becomes unavailable. The containers' own observations
// are correct at any time, and so is the final state.
func TestF14_RandomLives(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			model := []critest.Model{critest.Containerd2, critest.Containerd16, critest.CRIO}[seed%3]
			truth := &truth{t: t, alive: map[string]int{}, starts: map[string]int{}, wanted: map[string]bool{}}
			inBubble(t, critest.Config{Like: model, Programs: map[string]critest.Program{"serve": truth.serve, "work": truth.work}},
				func(t *testing.T, n *node) {
					l := &randomLife{node: n, truth: truth, random: rand.New(rand.NewPCG(seed, 14)), root: t.TempDir()}
					l.live(seed)
				})
		})
	}
}

// truth is what the processes of containers observe.
type truth struct {
	t  *testing.T
	mu sync.Mutex
	// alive counts the processes, and starts those there ever were, by container.
	alive, starts map[string]int
	// wanted are the pods that must not be stopped.
	wanted map[string]bool
}

func (h *truth) begin(c *critest.Command) (pod, container string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	container = c.Args[1]
	pod, _, _ = strings.Cut(container, "/")
	h.alive[container]++
	h.starts[container]++
	if h.alive[container] > 1 {
		h.t.Errorf("C1: %s runs %d times at %v", container, h.alive[container], time.Now())
	}
	if strings.HasSuffix(container, "/init") && h.alive[pod+"/app"] > 0 {
		h.t.Errorf("I1: %s runs beside the app", container)
	}
	return pod, container
}

func (h *truth) end(container string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.alive[container]--; h.alive[container] == 0 {
		delete(h.alive, container)
	}
}

// serve runs until it gets a signal.
func (h *truth) serve(ctx context.Context, c *critest.Command) int {
	pod, container := h.begin(c)
	defer h.end(container)
	for {
		select {
		case <-ctx.Done():
			h.stopped(pod, container, "killed")
			return 137
		case s := <-c.Signals:
			if s == int(syscall.SIGTERM) {
				h.stopped(pod, container, "SIGTERM")
				return 0
			}
		}
	}
}

func (h *truth) stopped(pod, container, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wanted[pod] {
		h.t.Errorf("%s was %s at %v, and is wanted", container, how, time.Now())
	}
}

// work exits after a while, with exit code 3 if it must fail.
func (h *truth) work(ctx context.Context, c *critest.Command) int {
	_, container := h.begin(c)
	defer h.end(container)
	select {
	case <-ctx.Done():
		return 137
	case <-time.After(3 * time.Second):
	}
	if len(c.Args) > 2 {
		return 3
	}
	return 0
}

// want sets the pods that must not be stopped.
func (h *truth) want(pods []*v1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted = map[string]bool{}
	for _, p := range pods {
		h.wanted[string(p.UID)] = true
	}
}

// randomLife is a node whose pods are added and removed at random.
type randomLife struct {
	*node
	*truth
	random *rand.Rand
	root   string
	src    *source.Push
	a      *agent
	pods   []*v1.Pod
	made   int
	slow   faults.Injected
}

func (l *randomLife) live(seed uint64) {
	t := l.node
	l.startAgent()
	l.afflict(seed)
	for range 40 {
		l.disturb()
		time.Sleep(time.Duration(l.random.IntN(3000)) * time.Millisecond)
	}
	l.heal()
	time.Sleep(10 * time.Minute)
	l.check()
	l.set(nil)
	time.Sleep(2 * time.Minute)
	l.checkEmpty()
	if t.Failed() {
		t.Logf("the calls were:\n%v", l.Runtime.Journal().Changes())
	}
}

// afflict makes calls fail, except starts, because a rejected start fails a
// pod that may not restart. Starts take time instead, during which the agent may be killed.
func (l *randomLife) afflict(seed uint64) {
	methods := slices.Concat(starts, stops, []critest.Method{
		critest.RemovePodSandbox, critest.RemoveContainer, critest.ListPodSandbox, critest.ListContainers,
		critest.PodSandboxStatus, critest.ContainerStatus, critest.ImageStatus, critest.PullImage,
	})
	methods = slices.DeleteFunc(methods, func(m critest.Method) bool { return m == critest.StartContainer })
	err := l.Runtime.SetRandom(faults.Random{Seed: seed, Rate: 0.08, Methods: methods, EventRate: 0.1, MaxDelay: 4 * time.Second})
	if err != nil {
		l.node.Fatal(err)
	}
	l.slow, err = l.Runtime.Inject(faults.Fault{
		Match: faults.Match{Method: critest.StartContainer}, Times: faults.Always, When: faults.Midway, Delay: 500 * time.Millisecond,
	})
	if err != nil {
		l.node.Fatal(err)
	}
}

func (l *randomLife) heal() {
	l.slow.Remove()
	if err := l.Runtime.SetRandom(faults.Random{}); err != nil {
		l.node.Fatal(err)
	}
}

func (l *randomLife) startAgent() {
	l.src = source.NewStaticPush("file")
	l.a = l.start([]source.Source{l.src}, func(c *nodeagent.Config) {
		c.Store, c.Root, c.Sync.Node.LogsRoot = nil, l.root, l.root+"/logs"
		c.Sync.Parts.Logs = nil
	})
	l.set(l.pods)
}

func (l *randomLife) set(pods []*v1.Pod) {
	l.pods = pods
	l.want(pods)
	set(l.node, l.src, slices.Clone(pods)...)
}

func (l *randomLife) disturb() {
	switch dice := l.random.IntN(10); {
	case dice < 4 || len(l.pods) == 0:
		l.made++
		l.set(append(slices.Clone(l.pods), l.newPod()))
	case dice < 6:
		at := l.random.IntN(len(l.pods))
		l.set(slices.Delete(slices.Clone(l.pods), at, at+1))
	case dice < 8:
		l.a.kill()
		time.Sleep(time.Duration(l.random.IntN(2000)) * time.Millisecond)
		l.startAgent()
	default:
		down := time.Duration(l.random.IntN(5000)) * time.Millisecond
		if err := l.Runtime.Restart(faults.Restart{Down: down, Disconnect: l.random.IntN(2) == 0}); err != nil {
			l.node.Fatal(err)
		}
	}
}

func (l *randomLife) newPod() *v1.Pod {
	uid := fmt.Sprintf("u%d", l.made)
	p := pod("file", uid, uid, "")
	app := &p.Spec.Containers[0]
	app.Command = []string{"serve", uid + "/app"}
	switch l.random.IntN(4) {
	case 0:
		p.Spec.RestartPolicy, app.Command = v1.RestartPolicyNever, []string{"work", uid + "/app"}
	case 1:
		p.Spec.RestartPolicy, app.Command = v1.RestartPolicyNever, []string{"work", uid + "/app", "fail"}
	case 2:
		always := v1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []v1.Container{
			{Name: "init", Image: app.Image, Command: []string{"work", uid + "/init"}},
			{Name: "side", Image: app.Image, Command: []string{"serve", uid + "/side"}, RestartPolicy: &always},
		}
	}
	return p
}

// check checks the state after a time without failures.
func (l *randomLife) check() {
	synctest.Wait()
	t := l.node
	l.truth.mu.Lock()
	defer l.truth.mu.Unlock()
	want := map[string]int{}
	for _, p := range l.pods {
		uid := string(p.UID)
		phase := l.a.sink.of(p.UID).Phase
		if p.Spec.RestartPolicy == v1.RestartPolicyNever {
			end := v1.PodSucceeded
			if len(p.Spec.Containers[0].Command) > 2 {
				end = v1.PodFailed
			}
			if code := exitCode(l.a.sink.of(p.UID)); phase != end || code != map[v1.PodPhase]int32{v1.PodFailed: 3}[end] {
				t.Errorf("job %s is %q with %d, want %s", uid, phase, code, end)
			}
			if n := l.starts[uid+"/app"]; n != 1 {
				t.Errorf("job %s was started %d times", uid, n)
			}
			continue
		}
		if phase != v1.PodRunning {
			t.Errorf("pod %s is %q, want %v", uid, phase, v1.PodRunning)
		}
		want[uid+"/app"] = 1
		if len(p.Spec.InitContainers) > 0 {
			want[uid+"/side"] = 1
		}
	}
	if !maps.Equal(l.alive, want) {
		t.Errorf("what runs is %v, and should be %v", l.alive, want)
	}
}

func exitCode(s v1.PodStatus) int32 {
	if len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].State.Terminated == nil {
		return -1
	}
	return s.ContainerStatuses[0].State.Terminated.ExitCode
}

// checkEmpty checks that nothing is left of removed pods.
func (l *randomLife) checkEmpty() {
	t := l.node
	conn, err := l.Runtime.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader, err := podreader.New(podreader.Config{Runtime: cri.NewClient(conn), RuntimeName: "critest"})
	if err != nil {
		t.Fatal(err)
	}
	left, err := reader.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range left {
		t.Errorf("the runtime has something of %s", p.UID)
	}
	if pods := l.a.Pods(); len(pods) > 0 {
		t.Errorf("%d pods are left", len(pods))
	}
	l.truth.mu.Lock()
	defer l.truth.mu.Unlock()
	if len(l.alive) > 0 {
		t.Errorf("%v still run", l.alive)
	}
}
