package clustertest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/modules/cluster/clustertest"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// autoscale is the controller under test: it adds as many nodes as the unschedulable pods need.
func autoscale(ctx context.Context, kube kubernetes.Interface, perNode int, grow func(nodes int)) {
	for tick := time.Tick(10 * time.Second); ; {
		pods, err := kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		waiting := 0
		for i := range pods.Items {
			for _, c := range pods.Items[i].Status.Conditions {
				if c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable {
					waiting++
				}
			}
		}
		if err == nil && waiting > 0 {
			grow((waiting + perNode - 1) / perNode)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// A full cluster of 100 nodes grows when more pods are created than fit.
func TestAutoscalerScalesUp(t *testing.T) {
	start(t, clustertest.Config{Nodes: 100}, func(t *testing.T, c *clustertest.Cluster) {
		added := 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		create(t, c, 220) // two fit on each node
		go autoscale(ctx, c.Clientset(), 2, func(nodes int) {
			for range nodes {
				added++
				c.AddNode(t, clustertest.NodeSpec{Name: fmt.Sprintf("scaled-%d", added)})
			}
		})
		c.Eventually(t, "all pods are ready", 5*time.Minute, func(ctx context.Context) bool { return running(ctx, t, c) == 220 })
		if added != 10 {
			t.Errorf("%d nodes were added, want %d", added, 10)
		}
		c.NoDoubleRuns(t)
	})
}

func create(t *testing.T, c *clustertest.Cluster, pods int) {
	for i := range pods {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", Image: "nginx", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}},
		}}}}
		must.Get(c.Clientset().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	}
}

func running(ctx context.Context, t *testing.T, c *clustertest.Cluster) int {
	pods := must.Get(c.Clientset().CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"}))(t)
	return len(pods.Items)
}
