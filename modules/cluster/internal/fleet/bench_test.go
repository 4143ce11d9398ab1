package fleet_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/podsync/podsync/modules/cluster/internal/fleet"
	"github.com/podsync/podsync/modules/cluster/internal/tracked"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// BenchmarkPods starts nodes with ten pods each on an API server in memory. The time and memory for each pod must not grow
// with the number of nodes: what one node does must not cost time for all others.
//
//	go test ./internal/fleet -run '^$' -bench Pods -benchtime 1x
func BenchmarkPods(b *testing.B) {
	for _, nodes := range []int{100, 300, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				runPods(b, nodes, 10*nodes)
			}
		})
	}
}

func runPods(b *testing.B, nodes, pods int) {
	kube := must.Get(kubernetes.NewForConfig(&rest.Config{Host: "http://fleet", Transport: &tracked.Server{Store: tracked.New(scheme.Scheme)}, QPS: -1}))(b)
	running, ran := map[types.UID]bool{}, make(chan struct{}) // calls of PodChanged never overlap
	f := must.Get(fleet.New(fleet.Config{Kube: kube, Dir: b.TempDir(), Runtime: critest.Config{JournalLimit: 1}, PodChanged: func(pod *v1.Pod, _ bool) {
		if pod.Status.Phase == v1.PodRunning && !running[pod.UID] {
			if running[pod.UID] = true; len(running) == pods {
				close(ran)
			}
		}
	}}))(b)
	defer f.Close()
	began := time.Now()
	for i := range nodes {
		n, err := f.Add(fleet.Spec{Name: fmt.Sprintf("n%d", i)})
		if err == nil {
			err = n.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range pods {
		must.Get(kube.CoreV1().Pods("default").Create(b.Context(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: v1.PodSpec{
			NodeName: fmt.Sprintf("n%d", i%nodes), Containers: []v1.Container{{Name: "app", Image: "nginx"}},
		}}, metav1.CreateOptions{}))(b)
	}
	<-ran
	b.ReportMetric(float64(time.Since(began).Milliseconds())/float64(pods), "ms/pod")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc+m.StackInuse)/float64(nodes)/1024, "kB/node")
	b.ReportMetric(float64(runtime.NumGoroutine())/float64(nodes), "goroutines/node")
}
