package clients

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/metrics"
	"sigs.k8s.io/metrics-server/pkg/scraper/client"
	"sigs.k8s.io/metrics-server/pkg/scraper/client/resource"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// scraper returns a function that reads the node as metrics-server does, with its client and
// its decoder.
func (n *node) scraper(t *testing.T) func() *storage.MetricsBatch {
	t.Helper()
	u := must.Get(url.Parse(n.config.Host))(t)
	port := must.Get(strconv.Atoi(u.Port()))(t)
	c := must.Get(resource.NewForConfig(&client.KubeletClientConfig{
		Client: *n.config, Scheme: u.Scheme, DefaultPort: port, AddressTypePriority: []v1.NodeAddressType{v1.NodeInternalIP},
	}))(t)
	return func() *storage.MetricsBatch {
		t.Helper()
		return must.Get(c.GetMetrics(t.Context(), itself()))(t)
	}
}

func itself() *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}}}}
}

var (
	web   = types.NamespacedName{Namespace: "default", Name: "web"}
	young = types.NamespacedName{Namespace: "default", Name: "young"}
)

// TestMetricsServer: its decoder finds the node, pods and containers, even next to an init container that has ended and a
// pod that has just started, and its storage computes rates from them.
func TestMetricsServer(t *testing.T) {
	for name, node := range allNodes(t) {
		t.Run(name, func(t *testing.T) {
			n := node(t)
			pod := n.pod("web", busy...)
			pod.Spec.InitContainers = []v1.Container{pod.Spec.Containers[0]}
			pod.Spec.InitContainers[0].Name, pod.Spec.InitContainers[0].Command = "init", []string{"true"}
			n.start(t, pod)
			scrape := n.scraper(t)
			var first *storage.MetricsBatch
			n.wait(t, func() bool { // a container that was just started has used nothing yet
				first = scrape()
				return whole(t, first)
			})
			began := time.Now()
			n.start(t, n.pod("young", busy...))
			store := storage.NewStorage(time.Second)
			store.Store(first)
			n.wait(t, func() bool {
				next := scrape()
				if !whole(t, next) {
					t.Fatalf("while another pod begins there is %+v, want node and pod as before", next)
				}
				check := len(next.Pods[young].Containers) == 1 && next.Pods[web].Containers["app"].Timestamp.After(began)
				if check {
					store.Store(next)
				}
				return check
			})
			checkRates(t, store, first)
		})
	}
}

// whole reports whether all figures of the node and of a pod that has run for some time are present, and logs those that
// cannot be.
func whole(t *testing.T, b *storage.MetricsBatch) bool {
	t.Helper()
	_, node := b.Nodes["node1"]
	containers := b.Pods[web].Containers
	if !node || len(containers) == 0 {
		return false
	}
	for name, p := range containers {
		if name != "app" || p.StartTime.IsZero() || !p.StartTime.Before(p.Timestamp) || time.Since(p.Timestamp) > patience || p.MemoryUsage > 1<<30 {
			t.Errorf("container %s: %+v, want app, with times in their order, of now", name, p)
		}
	}
	return true
}

// rates is metrics-server's storage.
type rates interface {
	GetNodeMetrics(nodes ...*v1.Node) ([]metrics.NodeMetrics, error)
	GetPodMetrics(pods ...*metav1.PartialObjectMetadata) ([]metrics.PodMetrics, error)
}

// checkRates: kubectl top has the usage of the node and the pod over the time between two scrapes.
func checkRates(t *testing.T, r rates, first *storage.MetricsBatch) {
	t.Helper()
	nodes, err := r.GetNodeMetrics(itself())
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%+v, %v, want the node and no error", nodes, err)
	}
	since := nodes[0].Timestamp.Sub(first.Nodes["node1"].Timestamp)
	if u := nodes[0].Usage; nodes[0].Window.Duration != since || since <= 0 || u.Cpu().IsZero() || u.Memory().Value() < 1<<20 {
		t.Errorf("node: %+v, want a window of %v", nodes[0], since)
	}
	pods, err := r.GetPodMetrics(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}})
	if err != nil || len(pods) != 1 || len(pods[0].Containers) != 1 {
		t.Fatalf("%+v, %v, want the pod with its container and no error", pods, err)
	}
	since = pods[0].Timestamp.Sub(first.Pods[web].Containers["app"].Timestamp)
	if u := pods[0].Containers[0].Usage; pods[0].Window.Duration != since || since <= 0 || u.Memory().IsZero() || u.Cpu().MilliValue() > 64_000 {
		t.Errorf("pod: %+v, want a window of %v", pods[0], since)
	}
}
