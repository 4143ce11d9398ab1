package agent_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/source"
)

// shortNode is a node with 16 GiB of memory. The test sets the available memory, and the runtime reports the usage of
// pods.
type shortNode struct {
	*stats.Reader
	events heard
	mu     sync.Mutex
	left   uint64
	reads  int
}

func newShortNode(n *node) *shortNode {
	conn := must.Get(n.Runtime.Dial())(n)
	n.Cleanup(func() { conn.Close() })
	reader := must.Get(stats.New(stats.Config{Runtime: cri.NewClient(conn)}))(n)
	return &shortNode{Reader: reader, left: 8 << 30}
}

func (s *shortNode) ReadNode(context.Context) (stats.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stats.Node{Memory: &stats.Memory{Time: time.Now(), AvailableBytes: new(s.left), WorkingSetBytes: new(16<<30 - s.left)}}, nil
}

func (s *shortNode) Read(ctx context.Context, pods []*runtime.PodStatus) (stats.Stats, error) {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	return s.Reader.Read(ctx, pods)
}

func (s *shortNode) has(left uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = left
}

// evicting is the change of a Config that evicts.
func (s *shortNode) evicting(p eviction.Policy) func(*agent.Config) {
	return func(c *agent.Config) {
		c.NoEviction, c.EvictionPolicy, c.NodeName = false, p, "node"
		c.Stats = s
		c.Sync.Events = (*evictionEvents)(s)
	}
}

// evictionEvents records the events of evictions.
type evictionEvents shortNode

func (e *evictionEvents) Eventf(about k8sruntime.Object, _, reason, format string, args ...any) {
	if reason == "Evicted" || reason == "EvictionThresholdMet" {
		e.events.add(fmt.Sprintf("%s %s: %s", about.(*v1.ObjectReference).Name, reason, fmt.Sprintf(format, args...)))
	}
}

func (e *evictionEvents) AnnotatedEventf(about k8sruntime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	e.Eventf(about, kind, reason, format+"%v", append(args, annotations)...)
}

func (s *shortNode) readings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// asking returns a pod that requests an amount of memory.
func asking(uid, memory string) *v1.Pod {
	p := pod(runtime.ConfigSourceAPI, uid, uid, forever)
	if memory != "" {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	}
	return p
}

// using sets the memory usage of a pod's container.
func (n *node) using(uid string, memory uint64) {
	n.Helper()
	for _, c := range n.instances(uid).Containers {
		must.Do(n, n.Runtime.SetUsage(c.ID.ID, critest.Usage{MemoryBytes: memory}))
	}
}

func conditionOf(status v1.PodStatus, name v1.PodConditionType) *v1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == name {
			return &status.Conditions[i]
		}
	}
	return nil
}

func underPressure(a *running) (list []v1.NodeConditionType) {
	for _, c := range a.Pressure() {
		if c.Status == v1.ConditionTrue {
			list = append(list, c.Type)
		}
	}
	return list
}

// wantEvicted checks that the statuses report these pods as evicted, and no others.
func wantEvicted(t *testing.T, a *running, want ...types.UID) {
	t.Helper()
	var got []types.UID
	for _, p := range a.Pods() {
		if p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" {
			got = append(got, p.Pod.UID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("evicted are %v, want %v\n%v", got, want, a.Pressure())
	}
}

const gib = 1 << 30

// Under memory pressure, the pod with the highest usage above its request is evicted, and no
// other pod until it has ended. BestEffort pods are rejected during the pressure.
func TestEvictionForMemory(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		short, src := newShortNode(n), source.NewPush()
		counted := &heard{}
		a := n.start([]source.Source{src}, func(c *agent.Config) {
			short.evicting(eviction.Policy{})(c)
			c.Evicted = func(e eviction.Eviction) { counted.add(string(e.Signal)) }
		})
		within, greedy, critical := asking("within", "2Gi"), asking("greedy", "1Gi"), asking("critical", "")
		critical.Spec.Priority = new(int32(2_000_001_000))
		set(t, src, within, greedy, critical)
		time.Sleep(33 * time.Second)
		n.using("within", gib)
		n.using("greedy", 3*gib)
		n.using("critical", 5*gib)
		if reads := short.readings(); reads > 0 || len(underPressure(a)) > 0 {
			t.Errorf("%d readings of pods on a node that is short of nothing, pressure %v", reads, underPressure(a))
		}
		short.has(50 << 20)
		time.Sleep(10 * time.Second) // one observation of the node
		short.has(4 * gib)
		time.Sleep(20 * time.Second)
		wantEvicted(t, a, "greedy")
		status := a.sink.of("greedy")
		want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. " +
			"Container app was using 3Gi, request is 1Gi, has larger consumption of memory. "
		if status.Message != want {
			t.Errorf("%q\nwant %q", status.Message, want)
		}
		if c := conditionOf(status, v1.DisruptionTarget); c == nil || c.Reason != "TerminationByKubelet" || c.Status != v1.ConditionTrue || c.Message != want {
			t.Errorf("DisruptionTarget is %+v, want reason %q, status %v and message %v", c, "TerminationByKubelet", v1.ConditionTrue, want)
		}
		if got := short.events.all(); !slices.Equal(got, []string{
			"node EvictionThresholdMet: Attempting to reclaim memory",
			"greedy Evicted: " + want + "map[offending_containers:app offending_containers_usage:3Gi starved_resource:memory]",
		}) {
			t.Errorf("events %q", got)
		}
		if got := counted.all(); !slices.Equal(got, []string{"memory.available"}) {
			t.Errorf("counted %v, want %q", got, []string{"memory.available"})
		}
		if got := underPressure(a); !slices.Equal(got, []v1.NodeConditionType{v1.NodeMemoryPressure}) {
			t.Errorf("under %v, want %v", got, []v1.NodeConditionType{v1.NodeMemoryPressure})
		}
		refused, taken := asking("refused", ""), asking("taken", "1Mi")
		set(t, src, within, greedy, critical, refused, taken)
		time.Sleep(5 * time.Second)
		if s := a.sink.of("refused"); s.Phase != v1.PodFailed || s.Reason != "Evicted" || s.Message != "Pod was rejected: The node had condition: [MemoryPressure]. " {
			t.Errorf("refused: %+v, want Phase %v and Reason %q and Message %q", s, v1.PodFailed, "Evicted", "The node had condition: [MemoryPressure]. ")
		}
		if s := a.sink.of("taken"); s.Phase != v1.PodRunning {
			t.Errorf("taken is %s, want %v", s.Phase, v1.PodRunning)
		}
		time.Sleep(5 * time.Minute)
		if got := underPressure(a); len(got) > 0 {
			t.Errorf("under %v after the transition period", got)
		}
		for _, uid := range a.Cache().UIDs() {
			if status, _ := a.Cache().Get(uid); !status.Empty() && status.Name == "greedy" {
				t.Errorf("the runtime still has %+v of the evicted pod", status)
			}
		}
		if why := a.ExplainPressure("within"); why != "stays: the node is short of nothing" {
			t.Errorf("%v, want %q", why, "stays: the node is short of nothing")
		}
	})
}

// A pod that does not end holds up the next one, but not for ever.
func TestEvictionsTakeTurns(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		short, src := newShortNode(n), source.NewPush()
		a := n.start([]source.Source{src}, short.evicting(eviction.Policy{}))
		set(t, src, asking("first", ""), asking("second", ""))
		time.Sleep(33 * time.Second)
		n.using("first", 3*gib)
		n.using("second", gib)
		stuck := n.instances("first").Containers[0].ID.ID
		must.Do(t, n.Runtime.SetIgnoreSignals(stuck, faults.IgnoreSignals{Term: true, Kill: true}))
		short.has(0)
		time.Sleep(50 * time.Second)
		wantRunningPods(t, n, "first", "second")
		if why := a.ExplainPressure("second"); why != "stays: a pod that was evicted has not ended" {
			t.Errorf("%v, want %q", why, "stays: a pod that was evicted has not ended")
		}
		time.Sleep(45 * time.Second)
		wantRunningPods(t, n, "first")
		must.Do(t, n.Runtime.SetIgnoreSignals(stuck, faults.IgnoreSignals{}))
		time.Sleep(time.Minute)
		wantRunningPods(t, n)
		wantEvicted(t, a, "first", "second")
		if got := short.events.all(); len(got) != 4 {
			t.Errorf("events %q, want two for each pod", got)
		}
	})
}

func wantRunningPods(t *testing.T, n *node, want ...string) {
	t.Helper()
	var got []string
	for _, uid := range []string{"first", "second"} {
		if slices.ContainsFunc(n.instances(uid).Containers, func(c runtime.ContainerStatus) bool { return c.State == runtime.ContainerRunning }) {
			got = append(got, uid)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v run, want %v", got, want)
	}
}

// On a full disk the status of an evicted pod cannot be recorded, so that the pod does not come to its end. Its containers are
// removed nevertheless, because they may be what fills the disk. The status that is recorded at last has their exit codes.
func TestEvictionOnAFullDisk(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		short, src := newShortNode(n), source.NewPush()
		a := n.start([]source.Source{src}, short.evicting(eviction.Policy{}))
		set(t, src, asking("greedy", ""))
		time.Sleep(33 * time.Second)
		n.using("greedy", gib)
		a.sink.fail(syscall.ENOSPC)
		short.has(50 << 20)
		time.Sleep(10 * time.Second)
		short.has(4 * gib)
		time.Sleep(2 * time.Minute)
		if status := n.Status("greedy"); !status.Empty() {
			t.Errorf("the runtime still has %+v of the evicted pod", status)
		}
		a.sink.fail(nil)
		time.Sleep(time.Minute)
		status := a.sink.of("greedy")
		if status.Phase != v1.PodFailed || status.Reason != "Evicted" || len(status.ContainerStatuses) != 1 {
			t.Fatalf("%+v, want Phase %v and Reason %q and one container", status, v1.PodFailed, "Evicted")
		}
		if end := status.ContainerStatuses[0].State.Terminated; end == nil || end.Reason == "ContainerStatusUnknown" || end.ContainerID == "" {
			t.Errorf("the container ended with %+v, want the exit that the runtime reported", end)
		}
	})
}

// The agent is killed during an eviction. The next agent continues it, although the pressure
// has ended, and evicts no other pod.
func TestEvictionOverARestart(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		short, src := newShortNode(n), source.NewPush()
		root := t.TempDir()
		change := func(c *agent.Config) {
			short.evicting(eviction.Policy{})(c)
			c.Root = root
		}
		a := n.start([]source.Source{src}, change)
		first, second := asking("first", ""), asking("second", "")
		set(t, src, first, second)
		time.Sleep(30 * time.Second)
		n.using("first", 3*gib)
		stuck := n.instances("first").Containers[0].ID.ID
		must.Do(t, n.Runtime.SetIgnoreSignals(stuck, faults.IgnoreSignals{Term: true, Kill: true}))
		short.has(0)
		time.Sleep(11 * time.Second)
		a.kill()
		short.has(8 * gib)
		must.Do(t, n.Runtime.SetIgnoreSignals(stuck, faults.IgnoreSignals{}))
		src = source.NewPush()
		a = n.start([]source.Source{src}, change)
		set(t, src, first, second)
		time.Sleep(time.Minute)
		wantRunningPods(t, n, "second")
		wantEvicted(t, a, "first")
		if c := conditionOf(a.sink.of("first"), v1.DisruptionTarget); c == nil || !strings.HasPrefix(c.Message, "The node was low on resource: memory.") {
			t.Errorf("DisruptionTarget is %+v", c)
		}
		if files := countFiles(t, filepath.Join(root, "evictions", "*")); files > 0 {
			t.Errorf("%d evictions are remembered", files)
		}
		a.kill()
		src = source.NewPush()
		n.start([]source.Source{src}, change)
		set(t, src, first, second)
		time.Sleep(time.Minute)
		wantRunningPods(t, n, "second")
	})
}

// A pod has more in an emptyDir than that may hold.
func TestEvictionForALimit(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
		short, src := newShortNode(n), source.NewPush()
		root := t.TempDir()
		a := n.start([]source.Source{src}, func(c *agent.Config) {
			short.evicting(eviction.Policy{})(c)
			c.Root = root
		})
		limit := resource.MustParse("1Mi")
		var pods []*v1.Pod
		for _, uid := range []string{"first", "second"} {
			p := asking(uid, "")
			p.Spec.Volumes = []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &limit}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
			pods = append(pods, p)
		}
		set(t, src, pods...)
		time.Sleep(30 * time.Second)
		for uid, size := range map[string]int{"first": 2 << 20, "second": 1 << 19} {
			at := filepath.Join(root, "pods", uid, "volumes", "kubernetes.io~empty-dir", "cache", "data")
			must.Do(t, os.WriteFile(at, make([]byte, size), 0o600))
		}
		time.Sleep(2 * time.Minute)
		wantEvicted(t, a, "first")
		status := a.sink.of("first")
		if want := `Usage of EmptyDir volume "cache" exceeds the limit "1Mi". `; status.Message != want || conditionOf(status, v1.DisruptionTarget) != nil {
			t.Errorf("%+v, want %q", status, want)
		}
		if len(underPressure(a)) > 0 {
			t.Errorf("under %v, want no pressure", underPressure(a))
		}
	})
}

func TestEvictionPolicyIsChecked(t *testing.T) {
	c := agent.Config{Client: newNode(t, critest.Config{}).client(t), Sources: []source.Source{source.NewPush()}}
	c.Sync.RuntimeName = "critest"
	c.EvictionPolicy = eviction.Policy{Hard: map[eviction.Signal]string{eviction.MemoryAvailable: "most"}}
	_, err := agent.New(c)
	if want := `agent: Config.EvictionPolicy: eviction/manager: Config.Policy: eviction: Policy.Hard["memory.available"] is "most"`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func (n *node) client(t *testing.T) *cri.Client {
	conn := must.Get(n.Runtime.Dial())(t)
	t.Cleanup(func() { conn.Close() })
	return cri.NewClient(conn)
}

// A pod that terminates without end and fills its volume keeps its limits, and no other pod is evicted in
// its place: an eviction ends its grace period.
func TestEvictionOfATerminatingPod(t *testing.T) {
	for name, tc := range map[string]struct {
		ends func(p *v1.Pod)
		// exceeds means that the pod exceeds its own limit; otherwise the node is under memory pressure.
		exceeds bool
	}{
		"limit of a deleted pod": {func(p *v1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(math.MaxInt32))
		}, true},
		"limit of a pod beyond its deadline": {func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(40)) }, true},
		"memory of a deleted pod": {func(p *v1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(math.MaxInt32))
		}, false},
		"memory of a pod beyond its deadline": {func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(40)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inBubble(t, critest.Config{Dir: dir}, func(t *testing.T, n *node) {
				short, src, root := newShortNode(n), source.NewPush(), t.TempDir()
				a := n.start([]source.Source{src}, func(c *agent.Config) {
					short.evicting(eviction.Policy{})(c)
					c.Root = root
				})
				first, second := asking("first", ""), asking("second", "")
				first.Spec.TerminationGracePeriodSeconds = new(int64(math.MaxInt32))
				first.Spec.Volumes = []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(1<<20, resource.BinarySI)}}}}
				first.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
				set(t, src, first, second)
				time.Sleep(30 * time.Second)
				n.using("first", 3*gib)
				n.using("second", gib)
				deaf := n.instances("first").Containers[0].ID.ID
				must.Do(t, n.Runtime.SetIgnoreSignals(deaf, faults.IgnoreSignals{Term: true}))
				first = first.DeepCopy()
				tc.ends(first)
				set(t, src, first, second)
				time.Sleep(time.Minute)
				wantRunningPods(t, n, "first", "second")
				if tc.exceeds {
					at := filepath.Join(root, "pods", "first", "volumes", "kubernetes.io~empty-dir", "cache", "data")
					must.Do(t, os.WriteFile(at, make([]byte, 2<<20), 0o600))
				} else {
					short.has(0)
					time.Sleep(11 * time.Second)
					short.has(8 * gib)
				}
				time.Sleep(3 * time.Minute)
				wantRunningPods(t, n, "second")
				if got := short.events.all(); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "first Evicted: ") {
					t.Errorf("events %q, want one of the eviction of first", got)
				}
				if len(n.instances("second").Containers) != 1 {
					t.Errorf("%v\n%v", n.instances("second"), a.Pressure())
				}
			})
		})
	}
}
