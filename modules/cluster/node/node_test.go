package node_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/modules/cluster/internal/clientlog"
	"github.com/podsync/podsync/modules/cluster/node"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/eviction"
)

func TestMain(m *testing.M) { os.Exit(clientlog.Run(m)) }

// A cri is a runtime that is ready unless err or offline is set. While hangs is set, its calls return only when their
// contexts end; otherwise they take delay. It counts the calls of Status and ListImages.
type cri struct {
	mu               sync.Mutex
	err              error
	hangs, offline   bool
	delay            time.Duration
	statuses, images int
}

// change changes the fields with the lock held.
func (r *cri) change(f func(r *cri)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

func (r *cri) hang(ctx context.Context) {
	r.mu.Lock()
	hangs, delay := r.hangs, r.delay
	r.mu.Unlock()
	time.Sleep(delay)
	if hangs {
		<-ctx.Done()
	}
}

func (r *cri) Status(ctx context.Context, _ *runtimeapi.StatusRequest, _ ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	r.hang(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses++
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: !r.offline},
	}}}, errors.Join(r.err, ctx.Err())
}

func (r *cri) Version(ctx context.Context, _ *runtimeapi.VersionRequest, _ ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	r.hang(ctx)
	return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.4.2"}, nil
}

func (r *cri) ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	r.change(func(r *cri) { r.images++ })
	return &runtimeapi.ListImagesResponse{Images: []*runtimeapi.Image{{RepoTags: []string{"small"}, Size: 1}, {RepoTags: []string{"large"}, Size: 2}}}, nil
}

func configOf(kube *fake.Clientset, runtime node.Runtime) node.Config {
	capacity := node.Machine{CPUs: 2, MemoryBytes: 4 << 30}.Capacity(3)
	rules := eviction.Rules{Thresholds: []eviction.Threshold{
		{Signal: eviction.MemoryAvailable, Value: eviction.Amount{Percent: 25}},
		{Signal: eviction.MemoryAvailable, Value: eviction.Amount{Percent: 50}, Grace: time.Minute}, // a soft threshold reserves nothing
	}}
	return node.Config{
		Kube: kube, Runtime: runtime, Name: "n1", IPs: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.0.0.1")} }, Port: 10250,
		Capacity: capacity, Allocatable: node.Allocatable(capacity, node.Reserved(rules, capacity)),
	}
}

// A site is a running node.
type site struct {
	*testing.T
	*node.Node
	kube    *fake.Clientset
	runtime *cri
}

func onSite(t *testing.T, there *v1.Node, test func(s *site)) {
	onSiteOf(t, there, func(*node.Config) {}, test)
}

func onSiteOf(t *testing.T, there *v1.Node, change func(*node.Config), test func(s *site)) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, kube: fake.NewClientset(), runtime: &cri{}}
		if there != nil {
			s.kube = fake.NewClientset(there)
		}
		watchCopies(s.kube)
		c := configOf(s.kube, s.runtime)
		change(&c)
		s.Node = must.Get(node.New(c))(t)
		must.Go(t, s.Node.Run)
		time.Sleep(time.Second)
		test(s)
	})
}

// watchCopies makes watches of nodes begin with copies. The fake clientset returns its stored objects if they were added
// after the list, and an informer writes to the objects that it receives.
func watchCopies(kube *fake.Clientset) {
	kube.PrependWatchReactor("nodes", func(a ktesting.Action) (bool, watch.Interface, error) {
		w, err := kube.Tracker().Watch(a.GetResource(), a.GetNamespace(), a.(ktesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		began := w.(*watch.RaceFreeFakeWatcher)
		for range len(began.ResultChan()) { // no other event arrives meanwhile: writes wait for the reactor
			e := <-began.ResultChan()
			began.Action(e.Type, e.Object.DeepCopyObject())
		}
		return true, began, nil
	})
}

// react adds a reaction of the API server while the node runs.
func (s *site) react(verb, resource string, reaction ktesting.ReactionFunc) {
	s.kube.Lock()
	defer s.kube.Unlock()
	s.kube.PrependReactor(verb, resource, reaction)
}

func (s *site) get() *v1.Node {
	s.Helper()
	return must.Get(s.kube.CoreV1().Nodes().Get(s.Context(), "n1", metav1.GetOptions{}))(s)
}

func (s *site) ready() v1.ConditionStatus {
	s.Helper()
	for _, c := range s.get().Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func (s *site) writes() (n int) {
	for _, a := range s.kube.Actions() {
		if a.GetVerb() == "patch" && a.GetResource().Resource == "nodes" {
			n++
		}
	}
	return n
}

func TestNodeIsRegistered(t *testing.T) {
	onSite(t, nil, func(s *site) {
		object := s.get()
		st := object.Status
		if s.ready() != v1.ConditionTrue || len(st.Conditions) != 4 {
			s.Errorf("the conditions are %+v", st.Conditions)
		}
		if object.Labels[v1.LabelHostname] != "n1" || st.DaemonEndpoints.KubeletEndpoint.Port != 10250 || st.NodeInfo.ContainerRuntimeVersion != "containerd://v2.4.2" {
			s.Errorf("the node is %+v", object)
		}
		if st.Addresses[0] != (v1.NodeAddress{Type: v1.NodeInternalIP, Address: "10.0.0.1"}) || st.Images[0].Names[0] != "large" {
			s.Errorf("addresses %v, images %v", st.Addresses, st.Images)
		}
		if st.Capacity.Memory().Value() != 4<<30 || st.Allocatable.Memory().Value() != 3<<30 {
			s.Errorf("capacity %v, allocatable %v", st.Capacity, st.Allocatable)
		}
		if f := st.DeclaredFeatures; !slices.IsSorted(f) || !slices.Contains(f, "RestartAllContainersOnContainerExits") || !slices.Contains(f, "InPlacePodLevelResourcesVerticalScaling") {
			s.Errorf("declared features %v, want RestartAllContainersOnContainerExits and InPlacePodLevelResourcesVerticalScaling, in order", f)
		}
		lease, err := s.kube.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(s.Context(), "n1", metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != "n1" || len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].Kind != "Node" {
			s.Errorf("the lease is %+v, %v", lease, err)
		}
	})
}

// An existing Node gets the node's labels, and keeps the fields that others have set.
func TestNodeIsTakenOver(t *testing.T) {
	there := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}, Spec: v1.NodeSpec{Unschedulable: true}}
	onSite(t, there, func(s *site) {
		object := s.get()
		if object.Labels["zone"] != "a" || object.Labels[v1.LabelHostname] != "n1" || !object.Spec.Unschedulable || s.ready() != v1.ConditionTrue {
			s.Errorf("the node is %+v", object)
		}
	})
}

// The labels of the platform are corrected at the next heartbeat after somebody has changed them. Other labels stay.
func TestLabelsOfThePlatformAreCorrected(t *testing.T) {
	onSite(t, nil, func(s *site) {
		changed := s.get()
		changed.Labels[v1.LabelOSStable], changed.Labels["zone"] = "dummyOS", "a"
		delete(changed.Labels, v1.LabelArchStable)
		must.Do(s, s.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), changed, ""))
		before := s.writes()
		time.Sleep(time.Minute)
		labels := s.get().Labels
		if labels[v1.LabelOSStable] != goruntime.GOOS || labels[v1.LabelArchStable] != goruntime.GOARCH || labels["zone"] != "a" {
			s.Errorf("labels %v", labels)
		}
		if n := s.writes() - before; n != 1 {
			s.Errorf("%d writes for one change, want 1", n)
		}
	})
}

// A status is written when it changes, and otherwise every five minutes.
func TestStatusIsSeldomWritten(t *testing.T) {
	onSite(t, nil, func(s *site) {
		before := s.writes()
		time.Sleep(4 * time.Minute)
		if n := s.writes() - before; n > 1 {
			s.Errorf("%d writes without a change", n)
		}
		before = s.writes()
		time.Sleep(5 * time.Minute)
		if n := s.writes() - before; n != 1 {
			s.Errorf("%d writes in five minutes, want 1", n)
		}
	})
}

// A write of the status that failed is repeated after 10 s, or after Interval if that is shorter.
func TestFailedWriteIsRepeated(t *testing.T) {
	for interval, want := range map[time.Duration]int{time.Hour: 6, 10 * time.Second: 6, 4 * time.Second: 15} {
		onSiteOf(t, nil, func(c *node.Config) { c.Interval = interval }, func(s *site) {
			time.Sleep(time.Minute) // until an overwritten Ready causes a write at once
			s.react("patch", "nodes", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
			s.overwrite(v1.ConditionFalse)
			before := s.writes()
			time.Sleep(59 * time.Second)
			if n := s.writes() - before; n != want {
				s.Errorf("%d writes in 59 s with an Interval of %v, want %d", n, interval, want)
			}
		})
	}
}

// N1: a runtime that restarts, or is slow for some time, leaves the node ready. If it fails or hangs for longer than 30
// s, the node is not ready. The heartbeat never waits for a call to the runtime.
func TestN1_ReadyWhileTheRuntimeRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*cri)
		ready time.Duration // when the node is ready after the fault
	}{
		"fails": {func(r *cri) { r.err = errors.New("connection refused") }, 2 * time.Second},
		"hangs": {func(r *cri) { r.hangs = true }, 2 * time.Minute}, // the timeout of the call that hangs
	} {
		t.Run(name, func(t *testing.T) {
			onSite(t, nil, func(s *site) {
				time.Sleep(time.Minute)
				s.runtime.change(c.fault)
				time.Sleep(24 * time.Second)
				if s.ready() != v1.ConditionTrue {
					s.Errorf("ready is %s 24 s after the last answer", s.ready())
				}
				time.Sleep(22 * time.Second)
				if s.ready() != v1.ConditionFalse {
					s.Errorf("ready is %s 46 s after the last answer", s.ready())
				}
				before := s.writes()
				time.Sleep(4 * time.Minute)
				if n := s.writes() - before; n > 1 {
					s.Errorf("%d writes while the reason stays the same", n)
				}
				s.runtime.change(func(r *cri) { r.err, r.hangs = nil, false })
				time.Sleep(c.ready + time.Millisecond)
				if s.ready() != v1.ConditionTrue {
					s.Errorf("ready is %s after the runtime is back", s.ready())
				}
			})
		})
	}
}

// N1: a runtime restart that begins just before a call of Status, and takes 17 s, leaves the node ready: calls that fail
// are repeated every 2 s, so that one succeeds before the last answer is too old.
func TestN1_RestartBeforeACall(t *testing.T) {
	onSite(t, nil, func(s *site) {
		s.runtime.change(func(r *cri) { r.delay = time.Second })
		calls := func() (n int) {
			s.runtime.change(func(r *cri) { n = r.statuses })
			return n
		}
		for before := calls(); calls() < before+2; { // until a call with the delay has ended
			time.Sleep(time.Millisecond)
		}
		time.Sleep(9900 * time.Millisecond)
		s.runtime.change(func(r *cri) { r.err = errors.New("connection refused") })
		for second := range 40 {
			if second == 17 {
				s.runtime.change(func(r *cri) { r.err = nil })
			}
			if time.Sleep(time.Second); s.ready() != v1.ConditionTrue {
				s.Fatalf("ready is %s %d s after the restart began", s.ready(), second+1)
			}
		}
	})
}

// N1: the node reports within 10 s that the runtime answers that it is not ready, and within 2 s that it is ready again.
func TestN1_UnreadyRuntimeIsReported(t *testing.T) {
	onSite(t, nil, func(s *site) {
		for _, c := range []struct {
			offline bool
			within  time.Duration
		}{{true, 10 * time.Second}, {false, 2 * time.Second}} {
			s.runtime.change(func(r *cri) { r.offline = c.offline })
			time.Sleep(c.within + time.Millisecond)
			if ready := s.ready() == v1.ConditionTrue; ready == c.offline {
				s.Errorf("ready is %v, offline is %v", ready, c.offline)
			}
			if err := s.NetworkReady(s.Context()); (err != nil) != c.offline {
				s.Errorf("the network: %v, offline is %v", err, c.offline)
			}
		}
	})
}

// An idle node makes few calls: Status every 10 s, and the list of images every 30 s. If each call takes 20 s, the pauses
// follow the calls.
func TestRuntimeIsSeldomRead(t *testing.T) {
	for delay, want := range map[time.Duration]struct{ statuses, images int }{0: {60, 20}, 20 * time.Second: {20, 10}} {
		onSite(t, nil, func(s *site) {
			s.runtime.change(func(r *cri) { r.delay = delay })
			time.Sleep(time.Minute)
			s.runtime.change(func(r *cri) { r.statuses, r.images = 0, 0 })
			time.Sleep(10 * time.Minute)
			s.runtime.mu.Lock()
			defer s.runtime.mu.Unlock()
			if statuses, images := s.runtime.statuses, s.runtime.images; statuses != want.statuses || images != want.images {
				s.Errorf("calls that take %v: %d of Status and %d of ListImages in ten minutes, want %+v", delay, statuses, images, want)
			}
		})
	}
}

// overwrite writes the condition Ready as another client does.
func (s *site) overwrite(status v1.ConditionStatus) {
	s.Helper()
	object := s.get()
	for i := range object.Status.Conditions {
		if c := &object.Status.Conditions[i]; c.Type == v1.NodeReady {
			c.Status = status
		}
	}
	must.Get(s.kube.CoreV1().Nodes().UpdateStatus(s.Context(), object, metav1.UpdateOptions{}))(s)
}

// If a node was cut off, the node lifecycle controller has written that its readiness is unknown. The node corrects that as
// soon as it sees it, however long its Interval is. Another agent with the same name gets an answer every 10 s at most.
func TestOverwrittenReadinessIsCorrected(t *testing.T) {
	onSiteOf(t, nil, func(c *node.Config) { c.Interval = time.Hour }, func(s *site) {
		time.Sleep(time.Minute)
		s.overwrite(v1.ConditionUnknown)
		time.Sleep(time.Second)
		if s.ready() != v1.ConditionTrue {
			s.Errorf("Ready is %s a second after another client has written it", s.ready())
		}
		before := s.writes()
		for range 30 {
			s.overwrite(v1.ConditionFalse)
			time.Sleep(time.Second)
		}
		if n := s.writes() - before; n > 3 {
			s.Errorf("%d writes in 30 s in answer to another agent", n)
		}
	})
}

// The node sees that its readiness was overwritten also when it writes something else before its watch is back.
func TestOverwrittenReadinessIsSeenByAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &site{T: t, kube: fake.NewClientset(), runtime: &cri{}}
		watchCopies(s.kube)
		c := configOf(s.kube, s.runtime)
		c.Watch, c.ReportInterval = node.NewWatch(s.kube), 100*time.Second
		s.Node = must.Get(node.New(c))(t)
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { c.Watch.Run(ctx) })
		parts.Go(func() { s.Node.Run(ctx) })
		defer func() { cancel(); parts.Wait() }()
		time.Sleep(time.Second)
		defer c.Watch.Hold("n1")()
		s.overwrite(v1.ConditionUnknown)
		before := s.writes()
		for range 200 { // seconds, twice ReportInterval
			if time.Sleep(time.Second); s.writes() > before {
				break
			}
		}
		if time.Sleep(time.Second); s.ready() != v1.ConditionTrue {
			t.Errorf("Ready is %s after a write of the status", s.ready())
		}
	})
}

// A long Interval delays nothing else: a runtime that fails or hangs is reported after 30 s, and a write that fails is
// repeated after 10 s.
func TestLongInterval(t *testing.T) {
	for name, fault := range map[string]func(*cri){
		"fails": func(r *cri) { r.err = errors.New("connection refused") },
		"hangs": func(r *cri) { r.hangs = true },
	} {
		onSiteOf(t, nil, func(c *node.Config) { c.Interval = time.Hour }, func(s *site) {
			var refused atomic.Bool
			time.Sleep(time.Minute) // until an overwritten Ready causes a write at once
			s.react("patch", "nodes", func(ktesting.Action) (bool, runtime.Object, error) {
				return refused.Load(), nil, errors.New("the API server is unavailable")
			})
			time.Sleep(time.Minute)
			refused.Store(true)
			s.runtime.change(fault)
			time.Sleep(40 * time.Second)
			refused.Store(false)
			if time.Sleep(10 * time.Second); s.ready() != v1.ConditionFalse {
				s.Errorf("%s: Ready is %s", name, s.ready())
			}
		})
	}
}

// N2: the Node keeps resources that others have written, and their allocatable amount may be smaller. Only the node
// reports huge pages: sizes that the machine no longer has are removed.
func TestN2_ResourcesOfOthersStay(t *testing.T) {
	gpus, fpgas, pages := v1.ResourceName("example.com/gpu"), v1.ResourceName("example.com/fpga"), v1.ResourceName("hugepages-2Mi")
	there := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1.NodeStatus{
		Capacity:    v1.ResourceList{gpus: resource.MustParse("4"), fpgas: resource.MustParse("2"), pages: resource.MustParse("1Gi"), v1.ResourceCPU: resource.MustParse("99")},
		Allocatable: v1.ResourceList{gpus: resource.MustParse("3"), v1.ResourceCPU: resource.MustParse("99")},
	}}
	onSite(t, there, func(s *site) {
		time.Sleep(time.Minute)
		st := s.get().Status
		want := v1.ResourceList{gpus: resource.MustParse("4"), fpgas: resource.MustParse("2"), v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourcePods: resource.MustParse("3")}
		if !equality.Semantic.DeepEqual(st.Capacity, want) {
			s.Errorf("the capacity is %v, want %v", st.Capacity, want)
		}
		if a := st.Allocatable; a.Name(gpus, resource.DecimalSI).Value() != 3 || a.Name(fpgas, resource.DecimalSI).Value() != 2 || a.Cpu().Value() != 2 {
			s.Errorf("allocatable is %v", a)
		}
	})
}

// N2: the Node lists the devices of plugins besides the resources that others have written, and follows changes of the
// plugins. The plugin's count replaces an older one of the same name.
func TestN2_DevicesOfPlugins(t *testing.T) {
	const gpus, cards = v1.ResourceName("example.com/gpu"), v1.ResourceName("vendor.test/card")
	there := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1.NodeStatus{
		Capacity:    v1.ResourceList{gpus: resource.MustParse("4"), cards: resource.MustParse("9")},
		Allocatable: v1.ResourceList{gpus: resource.MustParse("4"), cards: resource.MustParse("9")},
	}}
	var healthy atomic.Int64
	healthy.Store(2)
	devices := func() (capacity, allocatable v1.ResourceList) {
		return v1.ResourceList{cards: *resource.NewQuantity(3, resource.DecimalSI)}, v1.ResourceList{cards: *resource.NewQuantity(healthy.Load(), resource.DecimalSI)}
	}
	onSiteOf(t, there, func(c *node.Config) { c.Devices = devices }, func(s *site) {
		wants := func(capacity, allocatable int64) {
			s.Helper()
			st := s.get().Status
			of := func(l v1.ResourceList, name v1.ResourceName) int64 { return l.Name(name, resource.DecimalSI).Value() }
			if of(st.Capacity, cards) != capacity || of(st.Allocatable, cards) != allocatable || of(st.Capacity, gpus) != 4 || of(st.Allocatable, gpus) != 4 {
				s.Errorf("capacity is %v, allocatable %v, want %d and %d cards beside 4 GPUs", st.Capacity, st.Allocatable, capacity, allocatable)
			}
		}
		wants(3, 2)
		healthy.Store(0)
		time.Sleep(11 * time.Second)
		wants(3, 0)
	})
}

// A Node that is deleted while its agent runs is created again, with its status.
func TestDeletedNodeIsRegisteredAgain(t *testing.T) {
	onSite(t, nil, func(s *site) {
		must.Do(s, s.kube.CoreV1().Nodes().Delete(s.Context(), "n1", metav1.DeleteOptions{}))
		time.Sleep(11 * time.Second)
		if s.ready() != v1.ConditionTrue || s.get().Status.Capacity.Cpu().Value() != 2 {
			s.Errorf("the node is %+v", s.get())
		}
		time.Sleep(2 * time.Minute)
		created := slices.DeleteFunc(s.kube.Actions(), func(a ktesting.Action) bool { return a.GetVerb() != "create" || a.GetResource().Resource != "nodes" })
		if len(created) != 2 {
			s.Errorf("made %d times", len(created))
		}
	})
}

// An unavailable API server delays the admission of many pods no longer than that of one pod.
func TestE2_AdmissionWaitsOnce(t *testing.T) {
	onSite(t, nil, func(s *site) {
		reads := 0
		s.react("get", "nodes", func(ktesting.Action) (bool, runtime.Object, error) {
			if reads++; reads <= 2 { // the fake is locked meanwhile: more delays would stop the heartbeat, and so the clock
				time.Sleep(time.Second) // the timeout of a read
			}
			return true, nil, context.DeadlineExceeded
		})
		began := time.Now()
		for range 40 {
			if object := s.Newest(); object.Name != "n1" {
				s.Errorf("the newest is %+v, want the last known one", object.ObjectMeta)
			}
		}
		if took := time.Since(began); took > time.Second || reads != 1 {
			s.Errorf("40 reads took %v, %d reads, want %v and 1", took, reads, time.Second)
		}
		time.Sleep(11 * time.Second)
		s.Newest()
		if reads != 2 {
			s.Errorf("%d reads after a while, want 2", reads)
		}
	})
}

// Newest returns the Node without a taint that was removed, even if a cache of the API server still has it.
func TestRemovedTaint(t *testing.T) {
	tainted := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "1", ResourceVersion: "8"},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "out", Effect: v1.TaintEffectNoExecute}}},
	}
	onSite(t, tainted, func(s *site) {
		free := s.get()
		free.Spec.Taints, free.ResourceVersion = nil, "9"
		must.Do(s, s.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), free, ""))
		if object := s.Newest(); len(object.Spec.Taints) > 0 {
			s.Errorf("taints %+v, want none", object.Spec.Taints)
		}
		behind := func(a ktesting.Action) (bool, runtime.Object, error) {
			if a.(ktesting.GetActionImpl).GetOptions.ResourceVersion == "0" {
				return true, tainted, nil
			}
			return true, nil, errors.New("unavailable")
		}
		s.react("get", "nodes", behind)
		s.react("patch", "nodes", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("unavailable") })
		if err := s.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("nodes"), tainted, ""); err != nil { // the watch reports this version
			s.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if object := s.Newest(); len(object.Spec.Taints) > 0 {
			s.Errorf("taints %+v of an older version, want none", object.Spec.Taints)
		}
	})
}
