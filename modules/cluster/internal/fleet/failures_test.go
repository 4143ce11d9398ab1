package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/podsync/podsync/modules/cluster/internal/binder"
	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/internal/tracked"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A site is a fleet on an API server in memory, with a binder and a controller that keeps a number of pods.
type site struct {
	*testing.T
	*fleet.Fleet
	kube kubernetes.Interface
	// sent are the times of the requests that reached the API server.
	sent *requestTimes
	// nodes are all nodes that ever existed.
	nodes []*fleet.Node
	// reported is the number of calls of Config.PodChanged.
	reported atomic.Int32
	// invalid is called once, by the watch of pods, for an invalid pod. It is nil afterwards.
	invalid atomic.Pointer[func()]
}

// requestTimes records the times of the requests that only nodes send: patches, except of events, and those of leases.
type requestTimes struct {
	next http.RoundTripper
	mu   sync.Mutex
	at   []time.Time
	// last is the last of these requests.
	last *http.Request
}

func (r *requestTimes) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPatch && !strings.Contains(req.URL.Path, "/events") || strings.Contains(req.URL.Path, "/leases") {
		r.mu.Lock()
		r.at, r.last = append(r.at, time.Now()), req
		r.mu.Unlock()
	}
	return r.next.RoundTrip(req)
}

// since returns the number of requests since a time.
func (r *requestTimes) since(began time.Time) (sent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.at {
		if at.After(began) {
			sent++
		}
	}
	return sent
}

func (r *requestTimes) lastRequest() *http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func onSite(t *testing.T, nodes, pods int, test func(s *site)) {
	synctest.Test(t, func(t *testing.T) {
		sent := &requestTimes{next: &tracked.Server{Store: tracked.New(scheme.Scheme)}}
		kube := must.Get(kubernetes.NewForConfig(&rest.Config{Host: "http://fleet", Transport: fleet.Transport(sent), QPS: -1}))(t)
		s := &site{T: t, kube: kube, sent: sent}
		s.Fleet = must.Get(fleet.New(fleet.Config{
			Kube: kube, Dir: t.TempDir(), PodChanged: func(*v1.Pod, bool) { s.reported.Add(1) }, Log: funcr.New(s.logged, funcr.Options{}),
		}))(t)
		b := must.Get(binder.New(kube))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); ended <- struct{}{} }()
		go func() { s.keep(ctx, pods); ended <- struct{}{} }()
		for i := range nodes {
			s.add(fleet.Spec{Name: fmt.Sprintf("n%d", i)})
		}
		time.Sleep(time.Minute)
		test(s)
		cancel()
		<-ended
		<-ended
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// logged calls invalid for the line that a Source writes about an invalid pod.
func (s *site) logged(_, line string) {
	if !strings.Contains(line, "A pod is not valid") {
		return
	}
	if f := s.invalid.Swap(nil); f != nil {
		(*f)()
	}
}

func (s *site) add(spec fleet.Spec) {
	s.Helper()
	n, err := s.Add(spec)
	if err == nil {
		err = n.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.nodes = append(s.nodes, n)
}

func (s *site) create(pod *v1.Pod) {
	s.Helper()
	if _, err := s.kube.CoreV1().Pods("default").Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Error(err)
	}
}

// keep is the controller: it creates each missing pod again, by the same name.
func (s *site) keep(ctx context.Context, pods int) {
	for ctx.Err() == nil {
		for i := range pods {
			_, err := s.kube.CoreV1().Pods("default").Create(ctx, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "nginx"}}},
			}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				s.Error(err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// pods returns the pods by their node's name.
func (s *site) pods() map[string][]v1.Pod {
	s.Helper()
	list := must.Get(s.kube.CoreV1().Pods("default").List(s.Context(), metav1.ListOptions{}))(s)
	all := map[string][]v1.Pod{}
	for _, pod := range list.Items {
		all[pod.Spec.NodeName] = append(all[pod.Spec.NodeName], pod)
	}
	return all
}

// wantRunning requires that so many pods are ready, each on a node that exists.
func (s *site) wantRunning(want int) {
	s.Helper()
	ready := 0
	for name, pods := range s.pods() {
		for _, pod := range pods {
			if s.Node(name) != nil && pod.Status.Phase == v1.PodRunning && pod.Status.ContainerStatuses[0].Ready {
				ready++
			}
		}
	}
	if ready != want {
		s.Errorf("%d pods are ready, want %d", ready, want)
	}
}

// wantNoDoubleRun requires that no container of one pod, by name, ran twice at a time on one node or on two.
func (s *site) wantNoDoubleRun(names map[string]string) {
	s.Helper()
	runs := map[string][]critest.Process{}
	for _, n := range s.nodes {
		for _, p := range n.Runtime.Processes() {
			runs[names[p.PodUID]] = append(runs[names[p.PodUID]], p)
		}
	}
	for name, all := range runs {
		for i, a := range all {
			for _, b := range all[i+1:] {
				if a.Overlaps(b) {
					s.Errorf("%s ran twice at a time: %+v and %+v", name, a, b)
				}
			}
		}
	}
}

// A third of the nodes is lost for good, and replaced. Their pods run elsewhere, and none runs twice.
func TestAThirdIsReplaced(t *testing.T) {
	const nodes, pods = 9, 36
	onSite(t, nodes, pods, func(s *site) {
		s.wantRunning(pods)
		names := map[string]string{}
		note := func() {
			for _, all := range s.pods() {
				for _, pod := range all {
					names[string(pod.UID)] = pod.Name
				}
			}
		}
		note()
		for _, i := range rand.New(rand.NewPCG(1, 30)).Perm(nodes)[:nodes/3] {
			if err := s.Remove(s.Context(), s.nodes[i]); err != nil {
				t.Error(err)
			}
			s.add(fleet.Spec{Name: fmt.Sprintf("new%d", i)})
		}
		if all := s.Nodes(); len(all) != nodes {
			t.Errorf("there are %d nodes, want %d", len(all), nodes)
		}
		time.Sleep(2 * time.Minute)
		note()
		s.wantRunning(pods)
		if len(names) != pods+pods/3 {
			t.Errorf("%d pods have existed, want %d of the lost nodes beside %d", len(names), pods/3, pods)
		}
		s.wantNoDoubleRun(names)
	})
}

// While a node is partitioned, its pods run on, and it neither reports nor sees anything. Afterwards it
// sends one request for each changed pod.
func TestPartition(t *testing.T) {
	for name, loss := range map[string]fleet.Loss{"refused": fleet.Refused, "dropped": fleet.Dropped} {
		t.Run(name, func(t *testing.T) {
			const pods = 40
			onSite(t, 1, pods, func(s *site) {
				s.wantRunning(pods)
				n := s.nodes[0]
				began := time.Now()
				n.Partition(10*time.Minute, loss)
				time.Sleep(time.Minute)
				for _, p := range n.Runtime.Processes() { // each container crashes, and the agent starts it again
					if err := n.Runtime.ExitContainer(p.ContainerID, critest.Exit{Code: 1}); err != nil {
						t.Error(err)
					}
				}
				if err := s.kube.CoreV1().Pods("default").Delete(s.Context(), "p0", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				time.Sleep(8 * time.Minute)
				if sent := s.sent.since(began); sent != 0 {
					t.Errorf("a partitioned node has sent %d requests", sent)
				}
				w := httptest.NewRecorder()
				if n.Serve(w, httptest.NewRequest(http.MethodGet, "/containerLogs/default/p1/app", nil)); w.Code != http.StatusServiceUnavailable {
					t.Errorf("a partitioned node answers with %d, want %d", w.Code, http.StatusServiceUnavailable)
				}
				if got := len(n.Runtime.Processes()); got != 2*pods {
					t.Errorf("%d processes have run, want %d: each container was started again", got, 2*pods)
				}
				for _, pod := range s.pods()[n.Name] {
					if pod.Status.ContainerStatuses[0].RestartCount != 0 || pod.Name == "p0" && pod.DeletionTimestamp == nil {
						t.Errorf("the API server knows of a restart during the partition: %+v", pod)
					}
				}
				time.Sleep(2 * time.Minute)
				s.wantRunning(pods) // p0 is a new pod
				for _, pod := range s.pods()[n.Name] {
					if want := int32(1); pod.Name != "p0" && pod.Status.ContainerStatuses[0].RestartCount != want {
						t.Errorf("pod %s has %d restarts, want %d", pod.Name, pod.Status.ContainerStatuses[0].RestartCount, want)
					}
				}
				const heartbeats = 15 // leases and the status of the Node, in the minute after the partition
				if sent := s.sent.since(began); sent < pods || sent > pods+heartbeats {
					t.Errorf("after the partition the node has sent %d requests, want one for each pod and at most %d more", sent, heartbeats)
				}
			})
		})
	}
}

// A partition that is started while the changes of an earlier one are passed on has no effect: the node is connected then
// and afterwards, and can be partitioned again.
func TestPartitionDuringRelease(t *testing.T) {
	onSite(t, 1, 1, func(s *site) {
		n := s.nodes[0]
		n.Partition(time.Minute, fleet.Refused)
		synctest.Wait() // the changes of its pods are held
		s.invalid.Store(new(func() {
			w := httptest.NewRecorder()
			if n.Serve(w, httptest.NewRequest(http.MethodGet, "/containerLogs/default/p0/app", nil)); w.Code == http.StatusServiceUnavailable {
				t.Error("the node is not connected while changes are passed on")
			}
			n.Partition(time.Hour, fleet.Refused)
		}))
		s.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "invalid"}, Spec: v1.PodSpec{NodeName: n.Name, Containers: []v1.Container{{Name: "In Valid", Image: "nginx"}}}})
		time.Sleep(2 * time.Minute)
		if s.invalid.Load() != nil {
			t.Error("the pod was not refused")
		}
		began := time.Now()
		time.Sleep(5 * time.Minute)
		if s.sent.since(began) == 0 {
			t.Error("the node has sent no request after the partition")
		}
		n.Partition(time.Hour, fleet.Refused)
		began = time.Now()
		time.Sleep(5 * time.Minute)
		if sent := s.sent.since(began); sent != 0 {
			t.Errorf("in the next partition the node has sent %d requests", sent)
		}
	})
}

// Pods that the fleet knows before their node is added are reported.
func TestPodsBeforeTheirNode(t *testing.T) {
	onSite(t, 1, 0, func(s *site) {
		s.create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Spec: v1.PodSpec{NodeName: "late", Containers: []v1.Container{{Name: "app", Image: "nginx"}}}})
		time.Sleep(time.Second)
		if got := s.reported.Load(); got != 0 {
			t.Errorf("%d changes of pods are reported without their node", got)
		}
		if _, err := s.Add(fleet.Spec{Name: "late"}); err != nil {
			t.Error(err)
		}
		if got := s.reported.Load(); got != 1 {
			t.Errorf("%d changes of pods are reported when the node has been added, want %d", got, 1)
		}
	})
}

// A killed agent sends no request to the API server, even with a context that has not ended.
func TestKilledAgentIsSilent(t *testing.T) {
	onSite(t, 1, 1, func(s *site) {
		s.nodes[0].Kill()
		began, last := time.Now(), s.sent.lastRequest()
		req := last.Clone(context.WithoutCancel(last.Context()))
		req.Body = http.NoBody
		time.Sleep(time.Second)
		if response, err := fleet.Transport(s.sent).RoundTrip(req); err == nil {
			response.Body.Close()
			t.Error("a killed agent has got a response")
		}
		if sent := s.sent.since(began); sent != 0 {
			t.Errorf("a killed agent has sent %d requests", sent)
		}
	})
}
