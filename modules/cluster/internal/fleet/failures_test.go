package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
}

// requestTimes records the times of the requests that only nodes send: patches, except of events, and those of leases.
type requestTimes struct {
	next http.RoundTripper
	mu   sync.Mutex
	at   []time.Time
}

func (r *requestTimes) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPatch && !strings.Contains(req.URL.Path, "/events") || strings.Contains(req.URL.Path, "/leases") {
		r.mu.Lock()
		r.at = append(r.at, time.Now())
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

func onSite(t *testing.T, nodes, pods int, test func(s *site)) {
	synctest.Test(t, func(t *testing.T) {
		sent := &requestTimes{next: &tracked.Server{Store: tracked.New(scheme.Scheme)}}
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fleet", Transport: fleet.Transport(sent), QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		f, err := fleet.New(fleet.Config{Kube: kube, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		b, err := binder.New(kube)
		if err != nil {
			t.Fatal(err)
		}
		s := &site{T: t, Fleet: f, kube: kube, sent: sent}
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
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
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

// pods returns the pods by the name of their node.
func (s *site) pods() map[string][]v1.Pod {
	s.Helper()
	list, err := s.kube.CoreV1().Pods("default").List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
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
